"""A disk that is copied to another member: the volume goes only after this very call has seen its copy's end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie.cpi.contract import Unavailable
from coterie.cpi.drivers.incus.disks import Disks
from coterie.cpi.drivers.incus.marks import ATTACHED, COPY

ROW = {"name": "cot-a", "pool": "local", "location": "inc1", "content_type": "filesystem", "config": {ATTACHED: "true"}}
VM = {"name": "cot-b", "location": "inc2"}


def bring(monkeypatch: pytest.MonkeyPatch, copies: list[dict[str, Any]], found: dict[str, Any] | None) -> list[str]:
    """The methods of the requests that change something, when the copy's end is looked for and is `found`."""
    sent: list[str] = []

    def run(what: str, method: str, path: str, body: Any = None, etag: str = "", **query: str) -> None:
        sent.append(f"{method} {query.get('target')}")
        if body and found is not None and found["config"].get(COPY) == "own":
            found["config"][COPY] = body["config"][COPY]

    def edit(what: str, path: str, change: Any, **query: str) -> Any:
        if found is not None and change(found):
            sent.append(f"PUT {query.get('target')}")
        return found

    monkeypatch.setattr(Disks, "_copies", lambda self, cid: copies)
    client: Any = SimpleNamespace(running=list, run=run, edit=edit)
    nothing: Any = None
    disks = Disks(client, nothing, nothing, nothing)
    try:
        disks._bring_to(ROW, [ROW, *copies], VM)
    except Unavailable:
        sent.append("refused")
    return sent


def test_the_volume_goes_after_its_copy_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bring(monkeypatch, [], {"config": {COPY: "own"}}) == ["POST inc2", "PUT inc2", "DELETE inc1"]


def test_a_copy_that_another_call_began_anew_or_removed_is_not_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bring(monkeypatch, [], {"config": {COPY: "another's"}}) == ["POST inc2", "refused"]
    assert bring(monkeypatch, [], None) == ["POST inc2", "refused"]


def test_a_whole_copy_of_an_interrupted_call_is_used_and_another_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {**ROW, "location": "inc2"}
    assert bring(monkeypatch, [{**there, "config": {COPY: "whole"}}], None) == ["DELETE inc1"]
    partial = bring(monkeypatch, [{**there, "config": {COPY: "killed"}}], {"config": {COPY: "own"}})
    assert partial[:3] == ["DELETE inc2", "POST inc2", "PUT inc2"]
    assert partial[-1] == "DELETE inc1"
