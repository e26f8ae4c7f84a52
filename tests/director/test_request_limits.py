"""Sizes, and the pages that say how we are."""

from __future__ import annotations

import pytest

from coterie.director.context import Office
from coterie.director.middleware import request_limits
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.ledger.views import rows


def test_a_body_may_not_grow_without_end(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "LARGEST_BODY", 1000)
    told = client.send("POST", "/v1/plans", b"x" * 2000, {"content-length": "2000"})
    assert (told.status, told.json["code"]) == (413, "too_large")
    for length in ({}, {"content-length": "5"}):
        untold = client.send("POST", "/v1/plans", b"x" * 2000, {"content-type": "application/json", **length})
        assert (untold.status, untold.json["code"]) == (413, "too_large")


def test_a_document_has_a_size(client: Client) -> None:
    reply = client.send("POST", "/v1/plans", {"manifest": "#" * (4 * 2**20 + 1)})
    assert (reply.status, reply.json["code"]) == (422, "invalid_request")


def test_ready_until_it_ends(client: Client, office: Office) -> None:
    assert client.get("/readyz").text == "ok\n"
    office.ending = True
    assert (client.get("/readyz").status, client.get("/livez").status) == (503, 200)


def test_metrics_count_by_state(client: Client, ledger: Ledger) -> None:
    rows.node(ledger, "broker", 0)
    rows.cloud_object(ledger, "d1", state="kept")
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1)
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.text.splitlines()
    assert 'coterie_nodes{state="up"} 1' in lines
    assert 'coterie_objects{kind="disk",state="kept"} 1' in lines
    assert 'coterie_tasks{state="running"} 1' in lines
    assert 'coterie_steps{state="ready"} 1' in lines


def test_info_names_the_director_and_what_it_is_busy_with(client: Client, office: Office) -> None:
    rows.task(office.ledger, 1)
    office.resumed = [{"id": 1, "kind": "deploy", "deployment": "kafka"}]
    info = client.get("/v1/info").json
    assert info["director"] == {"name": "test", "uuid": office.identity.uuid}
    assert [task["id"] for task in info["unfinished"]] == [1]
    assert info["resumed"] == office.resumed


def test_a_request_counts_as_activity_until_it_is_answered(client: Client, office: Office) -> None:
    rows.task(office.ledger, 1)
    rows.event(office.ledger, 1, 1)
    with client.stream("/v1/tasks/1/events") as blocks:
        next(blocks)
        assert office.activity.open == 1
        assert office.activity.idle_for() == 0.0
        office.ending = True
        assert list(blocks) == []
    assert office.activity.open == 0
