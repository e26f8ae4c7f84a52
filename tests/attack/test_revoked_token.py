"""The holder of a token that is revoked or expires, and a viewer who opens very many event streams."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from coterie.director.access.caller import Caller
from coterie.director.access.tokens import is_still_valid
from coterie.director.context import AppContext
from coterie.director.http.slots import Slots
from coterie.ledger.rows import tokens
from coterie.ledger.store import Ledger
from tests.director.access.conftest import Make, Person
from tests.director.asgi import Client
from tests.ledger.views import rows


def bearer(person: Person) -> str:
    return f"Bearer {person.token}"


@pytest.mark.parametrize("path", ["/v1/events", "/v1/tasks/3/events"])
@pytest.mark.parametrize("end", ["revoked_at = 1", "expires_at = 1"])
def test_a_stream_ends_with_its_token_and_gives_no_later_event(
    person: Make, locked: Client, ledger: Ledger, path: str, end: str
) -> None:
    rows.task(ledger, 3)
    rows.event(ledger, 3, 1)
    viewer = person("viewer")
    with locked.stream(path, authorization=bearer(viewer)) as blocks:
        next(blocks)
        with ledger.write() as tx:
            tx.exec_driver_sql(f"UPDATE tokens SET {end} WHERE id = '{viewer.id}'")
        rows.event(ledger, 3, 2, body="too late")
        assert not any("too late" in block for block in blocks)
    assert viewer.get("/v1/events").status == 401


def test_a_quiet_stream_ends_too(person: Make, locked: Client, ledger: Ledger) -> None:
    viewer = person("viewer")
    with locked.stream("/v1/events", authorization=bearer(viewer)) as blocks:
        next(blocks)
        with ledger.write() as tx:
            tokens.revoke(tx, viewer.id)
        assert list(blocks) == []


def test_a_token_of_an_issuer_ends_at_its_time(ledger: Ledger) -> None:
    with ledger.read() as tx:
        assert is_still_valid(tx, Caller("oidc:x", "viewer", "oidc", expires_at=time.time() + 60))
        assert not is_still_valid(tx, Caller("oidc:x", "viewer", "oidc", expires_at=time.time() - 1))


def test_a_viewer_gets_so_many_streams_and_others_still_get_theirs(
    person: Make, locked: Client, context: AppContext
) -> None:
    context.streams = Slots("event streams", 3, 5)
    viewer, other = person("viewer"), person("viewer", name="other")
    stream = {"accept": "text/event-stream"}
    with ExitStack() as held:
        for _ in range(3):
            next(held.enter_context(locked.stream("/v1/events", authorization=bearer(viewer))))
        refused = viewer.send("GET", "/v1/events", **stream)
        assert (refused.status, refused.json["code"]) == (429, "too_many_requests")
        assert refused.headers["retry-after"] == "5"
        next(held.enter_context(locked.stream("/v1/events", authorization=bearer(other))))
    time.sleep(0.3)
    with locked.stream("/v1/events", authorization=bearer(viewer)) as blocks:
        assert next(blocks) == ": following"
