"""Pages by keyset: complete, stable while rows come and go, and deaf to cursors that are not theirs."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from coterie.errors import UsageError
from coterie.ledger.store import Ledger
from coterie.ledger.views import nodes, tasks
from coterie.ledger.views.page import Slice, when
from tests.growth import count_sqlite_steps
from tests.ledger.blank import sqlite_ledger
from tests.ledger.views import rows


def all_names(ledger: Ledger, size: int) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        with ledger.read() as tx:
            page = nodes.page(tx, Slice(size, cursor))
        found += [row["name"] for row in page.items]
        cursor = page.next
        if cursor is None:
            return found


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_pages_of_any_size_give_every_row_once_in_order(ledger: Ledger, size: int) -> None:
    for index in (10, 2, 0, 1):
        rows.node(ledger, "broker", index)
    rows.node(ledger, "broker", 5, deployment="a")
    expected = ["broker/5", "broker/0", "broker/1", "broker/2", "broker/10"]
    assert all_names(ledger, size) == expected


def test_a_full_last_page_has_no_next(ledger: Ledger) -> None:
    for index in range(4):
        rows.node(ledger, "broker", index)
    with ledger.read() as tx:
        first = nodes.page(tx, Slice(2))
        second = nodes.page(tx, Slice(2, first.next))
    assert first.next is not None
    assert second.next is None


def test_rows_that_come_or_go_before_the_cursor_shift_nothing(ledger: Ledger) -> None:
    for index in range(4, 8):
        rows.node(ledger, "broker", index)
    with ledger.read() as tx:
        first = nodes.page(tx, Slice(2))
    rows.node(ledger, "broker", 1)
    rows.node(ledger, "broker", 9)
    with ledger.write() as tx:
        tx.exec_driver_sql("DELETE FROM nodes WHERE uuid = 'uuid-kafka-broker-4'")
    with ledger.read() as tx:
        second = nodes.page(tx, Slice(100, first.next))
    assert [row["index"] for row in second.items] == [6, 7, 9]


def test_newest_first_goes_down_and_is_not_disturbed_by_newer_rows(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        rows.task(ledger, number)
    with ledger.read() as tx:
        first = tasks.page(tx, Slice(2))
    rows.task(ledger, 4)
    with ledger.read() as tx:
        second = tasks.page(tx, Slice(2, first.next))
    assert [row["id"] for row in first.items] == [3, 2]
    assert [row["id"] for row in second.items] == [1]


def cursor_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "!!!",
        "é",
        "a" * 500,
        cursor_of({"a": 1}),
        cursor_of([]),
        cursor_of(["kafka", "broker"]),
        cursor_of(["kafka", "broker", "1"]),
        cursor_of(["kafka", "broker", True]),
        cursor_of(["kafka", "broker", 2**63]),
        cursor_of(["kafka\x00", "broker", 1]),
        cursor_of(["kafka", None, 1]),
        cursor_of("[" * 5000),
    ],
)
def test_a_foreign_cursor_is_refused_with_a_remedy(ledger: Ledger, cursor: str) -> None:
    with ledger.read() as tx, pytest.raises(UsageError) as caught:
        nodes.page(tx, Slice(2, cursor))
    assert "`next`" in caught.value.remedy


def test_times_are_rfc3339_in_utc() -> None:
    assert when(1000.25) == "1970-01-01T00:16:40.250Z"
    assert when(None) is None


def test_the_last_page_of_a_deployment_costs_no_more_than_the_first(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    for index in range(400):
        rows.node(ledger, "broker", index)
    with ledger.read() as tx:
        costs = []
        cursor: str | None = None

        def read() -> None:
            nonlocal cursor
            cursor = nodes.page(tx, Slice(20, cursor), deployment="kafka").next

        while not costs or cursor is not None:
            costs.append(count_sqlite_steps(tx, read))
    ledger.close()
    assert len(costs) == 20 and max(costs) < 1.2 * costs[0]
