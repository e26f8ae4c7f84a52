"""Limits on the size of requests, and the health pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.director.context import AppContext
from coterie.director.middleware import request_limits
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.ledger.views import rows


def test_the_size_of_a_body_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "LARGEST_BODY", 1000)
    given = client.send("POST", "/v1/plans", b"x" * 2000, {"content-length": "2000"})
    assert (given.status, given.json["code"]) == (413, "too_large")
    for length in ({}, {"content-length": "5"}):
        untold = client.send("POST", "/v1/plans", b"x" * 2000, {"content-type": "application/json", **length})
        assert (untold.status, untold.json["code"]) == (413, "too_large")


def test_a_document_has_a_size(client: Client) -> None:
    reply = client.send("POST", "/v1/plans", {"manifest": "#" * (4 * 2**20 + 1)})
    assert (reply.status, reply.json["code"]) == (422, "invalid_request")


def test_ready_until_it_ends(client: Client, context: AppContext) -> None:
    assert client.get("/readyz").text == "ok\n"
    context.ending = True
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


def test_info_names_the_director_and_what_it_is_busy_with(client: Client, context: AppContext) -> None:
    rows.task(context.ledger, 1)
    context.resumed = [{"id": 1, "kind": "deploy", "deployment": "kafka"}]
    info = client.get("/v1/info").json
    assert info["director"] == {"name": "test", "uuid": context.identity.uuid}
    assert [task["id"] for task in info["unfinished"]] == [1]
    assert info["resumed"] == context.resumed


def test_a_request_counts_as_activity_until_it_is_answered(client: Client, context: AppContext) -> None:
    rows.task(context.ledger, 1)
    rows.event(context.ledger, 1, 1)
    with client.stream("/v1/tasks/1/events") as blocks:
        next(blocks)
        assert context.activity.open == 1
        assert context.activity.idle_for() == 0.0
        context.ending = True
        assert list(blocks) == []
    assert context.activity.open == 0


def test_a_request_that_outlasts_the_director_is_answered_with_a_problem(context: AppContext) -> None:
    """The server cancels what is not answered when its grace period is over."""
    sent: list[Any] = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        raise asyncio.CancelledError

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "PUT", "path": "/v1/deployments/x", "headers": []}
    answering = request_limits.RequestLimitsMiddleware(endless, context)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(answering(scope, receive, send))
    assert sent[0]["status"] == 503
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
    assert b"Idempotency-Key" in sent[1]["body"]
