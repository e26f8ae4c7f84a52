"""The call log: calls, their accounts, and how they ended. Off until switched on, since it costs a write."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from coterie.sandbox.store import Store
from coterie.slotted import dataclass


class Switches(NamedTuple):
    """What every call looks at first: is the log on, is any fault set."""

    log: int
    faults: int


@dataclass(frozen=True, slots=True)
class Entry:
    method: str
    account: str
    at: float
    ok: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class Count:
    calls: int
    failed: int


def switches(db: sqlite3.Connection) -> Switches:
    log, faults = db.execute("SELECT log, faults FROM switches").fetchone()
    return Switches(log, faults)


def switch_log(store: Store, on: bool) -> None:
    with store.writing() as db:
        db.execute("UPDATE switches SET log = ?", (on,))


def record(store: Store, method: str, account: str, at: float, error: str | None) -> None:
    with store.writing() as db:
        db.execute(
            "INSERT INTO calls (method, account, at, ok, error) VALUES (?,?,?,?,?)",
            (method, account, at, error is None, error),
        )


def entries(store: Store) -> list[Entry]:
    with store.reading() as db:
        rows = db.execute("SELECT method, account, at, ok, error FROM calls ORDER BY seq").fetchall()
    return [Entry(method, account, at, bool(ok), error) for method, account, at, ok, error in rows]


def counts(store: Store, account: str | None = None) -> dict[str, Count]:
    """Calls by method, of one account or of all."""
    with store.reading() as db:
        rows = db.execute(
            "SELECT method, count(*), sum(NOT ok) FROM calls WHERE account = coalesce(?, account) GROUP BY method",
            (account,),
        ).fetchall()
    return {method: Count(calls, failed) for method, calls, failed in rows}


def forget(store: Store) -> None:
    """Empty the log; whether it is on stays as it was."""
    with store.writing() as db:
        db.execute("DELETE FROM calls")
