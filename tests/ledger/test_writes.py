"""Row changes as data: on PostgreSQL those of one shape are one statement, on SQLite one for each row."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ledger import writes
from coterie.ledger.rows import events, objects
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.tables import events as events_table
from coterie.ledger.tables import metadata
from coterie.ledger.tables import objects as objects_table

INTENTS = [f"{n:026d}" for n in range(5)]


@pytest.fixture
def five(ledger: Ledger) -> Ledger:
    with ledger.write() as tx:
        writes.execute(tx, *(objects.intend(intent, "vm", "lab", ref=f"n/{intent}") for intent in INTENTS))
    return ledger


def rows(tx: Tx, *columns: str) -> list[Any]:
    query = sa.select(*(objects_table.c[name] for name in columns)).order_by(objects_table.c.intent)
    return [tuple(row) for row in tx.execute(query)]


def test_each_row_gets_its_own_values(five: Ledger) -> None:
    words = ["plain", 'quoted "\\', "ß é \U0001f600", "", None]
    kept: list[Any] = [{"a": [1, 2.5, None, True]}, [], "text", None, {"ß": {}}]
    with five.write() as tx:
        writes.execute(
            tx,
            *(
                writes.update("objects", {"intent": intent}, cid=cid, properties=kept[n], doubt_since=n / 3)
                for n, (intent, cid) in enumerate(zip(INTENTS, words, strict=True))
            ),
        )
        assert rows(tx, "cid", "properties", "doubt_since") == [
            (word, kept[n], pytest.approx(n / 3, abs=0)) for n, word in enumerate(words)
        ]
        assert tx.execute(sa.select(sa.func.count()).where(objects_table.c.properties.is_(None))).scalar_one() == 1


def test_what_a_cloud_answers_can_be_stored_whatever_characters_it_has(five: Ledger) -> None:
    odd = {"why": "a\0b \\u0000 \ud800 end", "é": "\U0001f600"}
    with five.write() as tx:
        writes.execute(tx, *(writes.update("objects", {"intent": intent}, properties=odd) for intent in INTENTS))
    with five.read() as tx:
        (found,) = {str(row.properties) for row in tx.execute(sa.select(objects_table.c.properties))}
    assert "end" in found and "\\u0000" in found and "\U0001f600" in found


def test_columns_that_are_not_given_have_their_defaults(five: Ledger) -> None:
    with five.read() as tx:
        assert rows(tx, "tombstone") == [(False,)] * 5


def test_every_default_is_known_to_the_database() -> None:
    """Rows that are inserted many at a time have no others."""
    columns = [column for table in metadata.tables.values() for column in table.c]
    assert [str(one) for one in columns if one.default is not None and one.server_default is None] == []


def test_the_last_of_two_changes_of_a_row_counts(five: Ledger) -> None:
    first, second = (writes.update("objects", {"intent": INTENTS[2]}, cid=cid) for cid in ("one", "two"))
    with five.write() as tx:
        writes.execute(tx, first, writes.update("objects", {"intent": INTENTS[0]}, cid="other"), second)
        assert rows(tx, "cid") == [("other",), (None,), ("two",), (None,), (None,)]


def test_only_the_rows_that_are_named_are_deleted(five: Ledger) -> None:
    with five.write() as tx:
        writes.execute(tx, *(writes.delete("objects", {"intent": intent}) for intent in INTENTS[1:4]))
        assert rows(tx, "intent") == [(INTENTS[0],), (INTENTS[4],)]


def test_many_rows_of_a_shape_are_one_statement(postgres_url: str) -> None:
    """A statement for each row would cost a round trip each, while other commits of the task wait."""
    ledger = Ledger.open(postgres_url)
    sent: list[str] = []
    sa.event.listen(ledger._writer, "before_cursor_execute", lambda *about: sent.append(about[2]))
    try:
        with ledger.write() as tx:
            sent.clear()
            writes.apply(tx, [objects.intend(intent, "vm", "lab") for intent in INTENTS], 1.0)
            writes.apply(tx, [objects.record_created(intent, "vm-1") for intent in INTENTS], 1.0)
            events.append(tx, [Event(None, "kind", "subject", str(n), {"n": n}) for n in range(50)], 1.0)
        assert [words.split()[0] for words in sent] == ["INSERT", "UPDATE", "INSERT"]
        with ledger.read() as tx:
            order = sa.select(events_table.c.body, events_table.c.data).order_by(events_table.c.id)
            assert [(int(body), data["n"]) for body, data in tx.execute(order)] == [(n, n) for n in range(50)]
    finally:
        ledger.close()
