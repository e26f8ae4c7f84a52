"""Event streams: complete, in order, resumed after a cut, ended with the task."""

from __future__ import annotations

import json
from typing import Any

from coterie.director.context import AppContext
from coterie.director.http import stream
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.ledger.views import rows


def parsed(block: str) -> tuple[str | None, str, Any]:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    return fields.get("id"), fields.get("event", ""), json.loads(fields["data"]) if "data" in fields else None


def end(ledger: Ledger, task: int) -> None:
    with ledger.write() as tx:
        tx.exec_driver_sql(f"UPDATE tasks SET state = 'done', ended_at = 2000 WHERE id = {task}")


def test_a_stream_gives_all_events_and_ends_with_the_task(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3, state="done", ended_at=2000.0)
    for n in (1, 2):
        rows.event(ledger, 3, n)
    with client.stream("/v1/tasks/3/events") as blocks:
        found = [parsed(block) for block in blocks]
    assert [(number, kind) for number, kind, _ in found] == [("1", "node.up"), ("2", "node.up"), (None, "end")]
    assert found[0][2]["subject"] == "broker/1"
    assert found[-1][2]["state"] == "done"


def test_a_stream_resumes_after_last_event_id(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3, state="done", ended_at=2000.0)
    for n in (1, 2, 3):
        rows.event(ledger, 3, n)
    with client.stream("/v1/tasks/3/events", last_event_id="2") as blocks:
        assert [parsed(block)[0] for block in blocks] == ["3", None]


def test_a_stream_gives_events_as_they_happen_and_waits_for_the_end(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3)
    rows.event(ledger, 3, 1)
    with client.stream("/v1/tasks/3/events") as blocks:
        assert parsed(next(blocks))[0] == "1"
        rows.event(ledger, 3, 2)
        assert parsed(next(blocks))[0] == "2"
        rows.event(ledger, 3, 3)
        end(ledger, 3)
        assert [parsed(block)[1] for block in blocks] == ["node.up", "end"]


def test_more_events_than_a_batch_all_arrive(client: Client, ledger: Ledger, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "_BATCH", 2)
    rows.task(ledger, 3, state="done", ended_at=2000.0)
    for n in range(1, 6):
        rows.event(ledger, 3, n)
    with client.stream("/v1/tasks/3/events") as blocks:
        assert [parsed(block)[0] for block in blocks] == ["1", "2", "3", "4", "5", None]


def test_a_quiet_stream_sends_comments(client: Client, ledger: Ledger, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "_HEARTBEAT_S", 0.1)
    rows.task(ledger, 3)
    with client.stream("/v1/tasks/3/events") as blocks:
        assert next(blocks) == ": still here"


def test_an_ending_director_ends_its_streams(client: Client, ledger: Ledger, context: AppContext) -> None:
    rows.task(ledger, 3)
    rows.event(ledger, 3, 1)
    with client.stream("/v1/tasks/3/events") as blocks:
        next(blocks)
        context.ending = True
        assert list(blocks) == []


def test_the_stream_of_all_begins_now_or_where_it_was_cut(client: Client, ledger: Ledger) -> None:
    rows.event(ledger, None, 0, id=1)
    rows.event(ledger, None, 0, id=2)
    with client.stream("/v1/events") as blocks:
        assert next(blocks) == ": following"
        rows.event(ledger, 7, 1, id=3)
        assert parsed(next(blocks))[0] == "3"
    with client.stream("/v1/events", last_event_id="1") as blocks:
        assert next(blocks) == ": following"
        assert [parsed(next(blocks))[0] for _ in range(2)] == ["2", "3"]


def test_without_the_header_events_come_as_pages(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3)
    for n in (1, 2, 3):
        rows.event(ledger, 3, n)
    first = client.get("/v1/tasks/3/events?limit=2").json
    second = client.get(f"/v1/tasks/3/events?limit=2&cursor={first['next']}").json
    assert [e["n"] for e in first["items"] + second["items"]] == [1, 2, 3]
    assert second["next"] is None


def test_begin_and_end_of_a_kind_of_task_can_be_left_out(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3, deployment="look")
    rows.event(ledger, 3, 1, kind="task.started", subject="look")
    for number in (4, 5, 6):
        rows.task(ledger, number, kind="look", deployment=None)
        rows.event(ledger, number, 1, kind="task.started", subject="look")
        rows.event(ledger, number, 2, kind="node.dead", subject="lab")
    rows.event(ledger, None, 0, kind="audit")
    found = client.get("/v1/events?without=look&limit=5").json["items"]
    assert [(one["kind"], one["task"]) for one in found] == [
        ("audit", None), ("node.dead", 6), ("node.dead", 5), ("node.dead", 4), ("task.started", 3),
    ], "a deployment that is called so is none"  # fmt: skip
    assert len(client.get("/v1/events").json["items"]) == 8


def test_a_stream_leaves_out_what_a_page_leaves_out(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 3, deployment="look")
    rows.task(ledger, 4, kind="look", deployment=None)
    rows.event(ledger, 4, 1, id=1, kind="task.started", subject="look")
    rows.event(ledger, 4, 2, id=2, kind="node.dead", subject="lab")
    rows.event(ledger, 3, 1, id=3, kind="task.started", subject="look")
    rows.event(ledger, None, 0, id=4, kind="audit")
    wanted = {"without=look": ["2", "3", "4"], "kind=audit": ["4"], "subject=lab": ["2"], "deployment=look": ["3"]}
    for query, numbers in wanted.items():
        with client.stream(f"/v1/events?{query}", last_event_id="0") as blocks:
            assert next(blocks) == ": following"
            assert [parsed(next(blocks))[0] for _ in numbers] == numbers, query


def test_a_stream_of_an_unknown_task_is_a_problem(client: Client) -> None:
    reply = client.get("/v1/tasks/9/events", accept="text/event-stream")
    assert (reply.status, reply.json["code"]) == (404, "not_found")
