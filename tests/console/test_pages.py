"""What pages say to a reader, without a browser."""

from __future__ import annotations

from collections.abc import Callable

from coterie.ledger.store import Ledger
from tests.console.http import Visitor, words
from tests.console.world import World
from tests.ledger.views import rows

Make = Callable[..., Visitor]


def look(ledger: Ledger) -> None:
    rows.task(ledger, 900, kind="look", deployment=None, state="done")
    rows.event(ledger, 900, 1, kind="task.started", subject="look", body="1 cloud")
    rows.event(ledger, 900, 2, kind="node.dead", subject="lab", body="kafka: broker/7 is dead")
    rows.event(ledger, 900, 3, kind="task.done", subject="look", body="1 done")


def test_events_leave_out_the_looks_but_not_what_they_found(there: World, visitor: Make) -> None:
    look(there.context.ledger)
    one = visitor()
    plain, with_looks = words(one.get("/events").text), words(one.get("/events?looks=yes").text)
    assert "broker/7 is dead" in plain and "task.done" not in plain
    assert "broker/7 is dead" in with_looks and "task.done" in with_looks
    assert "task.done" in words(one.get("/events?subject=look").text)


def test_a_task_that_is_gone_has_a_title_that_says_so(visitor: Make) -> None:
    answer = visitor().get("/tasks/4711")
    assert answer.status == 404
    assert "<title>Not found · Coterie</title>" in answer.text
