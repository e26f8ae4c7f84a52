"""Parts in the ledger: how long a call that never ended stands for something in the cloud."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.cpi.contract import Kind, Part, choose_ours, may_be_ours
from coterie.ledger import writes
from coterie.ledger.rows import parts
from coterie.ledger.store import Ledger
from coterie.ledger.tables import parts as table

PORT: Kind = "port"


def test_a_call_that_was_repeated_stands_for_nothing_when_its_time_is_over(ledger: Ledger) -> None:
    with ledger.write() as tx:
        parts.intend(tx, "lab", "i", PORT, "port")  # killed before the request
        parts.intend(tx, "lab", "i", PORT, "port")  # the repeat
        parts.record(tx, "lab", "i", PORT, "port", "p-1")
        assert _ours(parts.list_of(tx, ["i"])["i"]) == ["p-1", "p-2"]  # the first call's may still come
        _grow_old(tx)
        assert parts.list_of(tx, ["i"]) == {"i": [Part(PORT, "port", "p-1")]}
        assert _ours(parts.list_of_cloud(tx, "lab")["i"]) == ["p-1"]


def test_a_call_that_was_not_repeated_stands_for_what_it_may_have_created(ledger: Ledger) -> None:
    with ledger.write() as tx:
        parts.intend(tx, "lab", "i", PORT, "port")
        parts.record(tx, "lab", "i", PORT, "port", "p-1")
        parts.intend(tx, "lab", "i", PORT, "port")  # of the second NIC: killed after the request
        _grow_old(tx)
        assert _ours(parts.list_of(tx, ["i"])["i"]) == ["p-1", "p-2"]


def test_an_object_without_parts_is_none_of_an_older_release(ledger: Ledger) -> None:
    with ledger.write() as tx:
        assert may_be_ours(parts.list_of(tx, ["i"]).get("i", []), "ip", "copy")
        writes.execute(tx, parts.begin("lab", "i", "vm"))
        found = parts.list_of(tx, ["i"])["i"]
        assert not may_be_ours(found, "ip", "copy")
        assert choose_ours(found, "ip", [("copy", "ip")]) == []
        assert parts.of_deployment(tx, "dep") == {}


def _ours(found: list[Part]) -> list[str]:
    return choose_ours(found, PORT, [("p-1", "port"), ("p-2", "port"), ("copy", "port")])


def _grow_old(tx: sa.Connection) -> None:
    tx.execute(sa.update(table).values(created_at=table.c.created_at - parts.LATE_S - 1))
