"""What one caller sends to the console, and what it costs others."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coterie.director.console.pages import deployments, live
from coterie.director.context import AppContext
from coterie.director.http.slots import WaitingSlots
from coterie.ledger.rows.deployments import add_to_history
from coterie.settings import load
from tests.console.http import Visitor, words
from tests.console.world import World
from tests.ledger.views import rows

Make = Callable[..., Visitor]


def keep(context: AppContext, name: str, *texts: str) -> None:
    rows.deployment(context.ledger, name, manifest=f"name: {name}")
    with context.ledger.write() as tx:
        for text in texts:
            add_to_history(tx, name, text, None)


def test_texts_are_compared_outside_of_the_event_loop(
    there: World, visitor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(there.context, "short", "a: 1", "a: 2")
    in_loop: list[bool] = []
    compare = deployments._diff

    def look(old: str, new: str) -> list[tuple[str, str]]:
        in_loop.append(asyncio._get_running_loop() is not None)
        return compare(old, new)

    monkeypatch.setattr(deployments, "_diff", look)
    assert "+a: 2" in words(visitor().get("/deployments/short/history").text)
    assert in_loop == [False]


def test_texts_of_very_many_lines_are_not_compared(there: World, visitor: Make) -> None:
    keep(there.context, "long", "a\n" * 4000, "b\n" * 4000)
    answer = visitor().get("/deployments/long/history")
    assert answer.status == 200 and "too long to be compared" in words(answer.text)


def test_mistakes_are_looked_for_in_a_slot_of_the_caller_and_shown_up_to_a_number(
    there: World, visitor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    class Counted(WaitingSlots):
        def take(self, caller: str):  # type: ignore[no-untyped-def]
            taken.append(caller)
            return super().take(caller)

    monkeypatch.setattr(there.context, "documents", Counted(1))
    text = "name: web\n" + "".join(f"wrong{n}: 1\n" for n in range(300))
    said = words(visitor("viewer").post("/check", {"manifest": text}).text)
    assert len(taken) == 1
    assert "302 mistakes" in said and "202 more mistakes" in said and said.count("wrong") < 300


def test_a_form_may_be_as_large_as_a_request_of_the_api(visitor: Make) -> None:
    one = visitor()
    assert one.post("/check", {"manifest": "a" * (2 << 20)}).status == 200


@pytest.mark.parametrize("query", ["every=%C2%B2", "after=%C2%B2"])
def test_odd_digits_are_no_failure(there: World, visitor: Make, query: str) -> None:
    keep(there.context, query.partition("=")[0], "a: 1")
    one = visitor()
    assert one.get(f"/deployments/{query.partition('=')[0]}/history?new=%C2%B2").status == 200
    connection = _open_stream(one, f"/live?{query}")
    assert connection.getresponse().status == 200
    connection.close()


def test_a_stream_ends_with_its_session(there: World, visitor: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_RECHECK_S", 0.2, raising=False)
    one = visitor()
    connection = _open_stream(one, "/live?every=1")
    answer = connection.getresponse()
    assert answer.readline()
    assert one.post("/logout").status == 303
    for _ in range(20):
        if not answer.read1(1000):
            break
    else:
        pytest.fail("the stream goes on")


def _open_stream(one: Visitor, path: str) -> http.client.HTTPConnection:
    where = urlsplit(one.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    jar = "; ".join(f"{name}={value}" for name, value in one.cookies.items())
    connection.request("GET", path, headers={"accept": "text/event-stream", "cookie": jar})
    return connection


def test_a_list_of_no_teams_is_no_token_for_all(there: World, visitor: Make) -> None:
    one = visitor()
    for teams in (",", " , "):
        answer = one.post("/access/tokens", {"name": "t", "role": "viewer", "teams": teams, "days": "1"})
        assert answer.status == 422 and 'value="cot_' not in answer.text
    answer = one.post("/access/tokens", {"name": "t", "role": "viewer", "teams": "", "days": "1"})
    assert answer.status == 200 and 'value="cot_' in answer.text


def test_a_login_is_recorded_with_the_address_that_a_trusted_proxy_names(
    there: World, visitor: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = load({"state": str(tmp_path)}, {"HOME": str(tmp_path), "COTERIE_TRUSTED_PROXIES": "127.0.0.0/8"})
    monkeypatch.setattr(there.context, "settings", values)
    token = there.token("viewer")
    assert Visitor(there.url).post("/login", {"token": token}, x_forwarded_for="192.0.2.77").status == 200
    assert "192.0.2.77" in words(visitor().get("/access").text)
