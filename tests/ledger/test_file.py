"""A ledger in a file without SQLAlchemy: the same rows as with it, and the same care for old and damaged files."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.errors import LedgerTooNew, LedgerUnusable
from coterie.ledger.file import HEAD, FileLedger
from coterie.ledger.rows import object_life, objects, parts, registry
from coterie.ledger.statements import run, time
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata
from coterie.ledger.work import leases
from coterie.ledger.writes import Write, execute
from tests.ledger.blank import sqlite_ledger

INTENT, OTHER = "0" * 26, "1" * 26


@pytest.fixture
def file(tmp_path: Path) -> Path:
    sqlite_ledger(tmp_path / "ledger.db").close()
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(file: Path) -> Iterator[FileLedger]:
    opened = FileLedger.open(str(file))
    yield opened
    opened.close()


def version(file: Path) -> str:
    with sqlite3.connect(file) as connection:
        found: str = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    connection.close()
    return found


def set_versions(file: Path, version: str, floor: str | None = None) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        if floor:
            connection.execute("UPDATE schema_floor SET oldest = ?", (floor,))
    connection.close()


def test_a_new_file_gets_the_schema(tmp_path: Path) -> None:
    FileLedger.open(str(tmp_path / "new.db")).close()
    assert version(tmp_path / "new.db") == HEAD


def test_a_file_that_is_up_to_date_is_opened_without_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "open", lambda url: pytest.fail("it was opened as a whole"))
    FileLedger.open(str(file)).close()


def test_a_newer_one_is_refused_unless_it_only_added_things(file: Path) -> None:
    set_versions(file, "9999")
    opened = FileLedger.open(str(file))
    with opened.write() as tx:
        assert leases.take(tx, "k", "h", 60)
    opened.close()
    set_versions(file, "9999", "9999")
    with pytest.raises(LedgerTooNew, match="schema 9999"):
        FileLedger.open(str(file))
    assert version(file) == "9999"


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(LedgerUnusable, match=r"bad\.db is damaged"):
        FileLedger.open(str(tmp_path / "bad.db"))
    with pytest.raises(LedgerUnusable, match="cannot be opened"):
        FileLedger.open(str(tmp_path / "no" / "such.db"))


LIFE: list[Callable[[], Write]] = [
    lambda: objects.intend(INTENT, "vm", "lab", director="d", ref="a", properties={"undelivered": True, "ß": [1.5]}),
    lambda: objects.record_created(INTENT, "cid", {"answer": ["cid", {"net": {"ip": "192.0.2.1"}}], "none": None}),
    lambda: objects.record_unknown(INTENT, 5.0),
    lambda: objects.begin_delete(INTENT, "cid"),
    lambda: objects.record_gone(INTENT, tombstone=True),
]


def plain_rows(ledger: Ledger, table: str) -> list[dict[str, Any]]:
    """Without times, which differ."""
    with ledger.read() as tx:
        rows = [dict(row._mapping) for row in tx.execute(sa.select(metadata.tables[table]))]
    return [{name: value for name, value in row.items() if not name.endswith("_at")} for row in rows]


@pytest.mark.parametrize("steps", range(1, len(LIFE) + 1))
def test_it_writes_the_rows_that_sqlalchemy_writes(ledger: FileLedger, tmp_path: Path, steps: int) -> None:
    with sqlite_ledger_of(tmp_path) as whole:
        for move in LIFE[:steps]:
            with ledger.write() as tx:
                execute(tx, move(), *([parts.begin("lab", INTENT, "vm")] if move is LIFE[0] else []))
            with whole.write() as other:
                execute(other, move(), *([parts.begin("lab", INTENT, "vm")] if move is LIFE[0] else []))
        with whole_of(ledger) as same:
            for table in ("objects", "parts"):
                assert plain_rows(same, table) == plain_rows(whole, table) != []
            with ledger.read() as tx, same.read() as other:
                assert object_life.get(tx, INTENT) == object_life.get(other, INTENT) is not None
                assert object_life.of_caller(tx, "lab", "d") == object_life.of_caller(other, "lab", "d")
                assert abs(time(tx) - time(other)) < 5


class whole_of:
    """The same file by SQLAlchemy."""

    def __init__(self, ledger: FileLedger) -> None:
        self._opened = Ledger.open(f"sqlite:///{ledger.path}")

    def __enter__(self) -> Ledger:
        return self._opened

    def __exit__(self, *error: object) -> None:
        self._opened.close()


def sqlite_ledger_of(folder: Path) -> whole_of:
    sqlite_ledger(folder / "whole.db").close()
    return whole_of(FileLedger(str(folder / "whole.db")))


def test_undelivered_machines_are_found_by_their_note_alone(ledger: FileLedger) -> None:
    with ledger.write() as tx:
        for intent, notes in ((INTENT, {"undelivered": True}), (OTHER, {"stemcell": 'an "undelivered" one'})):
            execute(tx, objects.intend(intent, "vm", "lab", director="d", properties=notes))
        assert [row.intent for row in object_life.list_undelivered_vms(tx, "lab", "d")] == [INTENT]
        assert object_life.list_undelivered_vms(tx, "lab", "other") == []


def test_a_transaction_that_fails_leaves_nothing(ledger: FileLedger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.write() as tx:
        registry.put(tx, "i", "{}")
        raise ZeroDivisionError
    with pytest.raises(sqlite3.OperationalError), ledger.write() as tx:
        registry.put(tx, "i", "{}")
        run(tx, "SELECT no_such_column FROM leases")
    with ledger.read() as tx:
        assert registry.get(tx, "i") is None


def test_a_reader_sees_one_state(ledger: FileLedger) -> None:
    with ledger.read() as before:
        assert registry.get(before, "i") is None
        with ledger.write() as tx:
            registry.put(tx, "i", "{}")
        assert registry.get(before, "i") is None
    with ledger.read() as after:
        assert registry.get(after, "i") == "{}"


def test_many_threads_write_one_after_the_other(ledger: FileLedger) -> None:
    def count() -> None:
        for _ in range(20):
            with ledger.write() as tx:
                now = json.loads(registry.get(tx, "n") or "0")
                registry.put(tx, "n", json.dumps(now + 1))

    threads = [threading.Thread(target=count) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger.read() as tx:
        assert registry.get(tx, "n") == "240"


def test_what_is_committed_outlives_a_power_cut(ledger: FileLedger) -> None:
    with ledger.read() as tx:
        assert run(tx, "PRAGMA synchronous").fetchone() == (2,)
        assert run(tx, "PRAGMA journal_mode").fetchone() == ("wal",)
