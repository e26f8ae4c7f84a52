"""Waiting for many boots at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coterie.cpi.contract import Mark, Runtime
from coterie.cpi.drivers.openstack.driver import OpenstackCpi

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
SERVERS = [f"7c4e3e50-7d3f-4f3b-9e7d-0d6f3a3a3a{number}" for number in range(10, 20)]


def test_all_who_wait_for_boots_ask_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(MARK.director, None)  # type: ignore[arg-type] # nothing is written
    cpi = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9", "poll_s": 0.2}, runtime)
    answers = [[{"id": one} for one in SERVERS], [{"id": SERVERS[0]}]]
    asked: list[dict[str, Any]] = []

    def page(*arguments: Any, **params: Any) -> tuple[list[dict[str, str]], None]:
        asked.append(params)
        return (answers.pop(0) if answers else []), None

    monkeypatch.setattr(cpi.api, "page", page)
    monkeypatch.setattr(cpi.api, "get", lambda *_, **params: {"servers": [{"id": one} for one in SERVERS]})
    with ThreadPoolExecutor(len(SERVERS)) as pool:
        list(pool.map(lambda one: cpi.running(one, MARK), SERVERS))
    assert len(asked) <= 4
    assert {params["status"] for params in asked} == {"BUILD"}
