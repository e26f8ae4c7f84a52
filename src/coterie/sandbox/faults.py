"""Faults on demand, kept in the state file, so that one process can set them for another.

A fault names calls by glob and bends the next `times` of them (or all, until it is removed).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from coterie.sandbox.errors import INJECTABLE, BadRequest
from coterie.sandbox.store import Store
from coterie.slotted import asdict, dataclass

MODES = {
    "error": "nothing is done and the cloud answers the error `code` (default: failed, which a repeat may cure)",
    "throttle": "nothing is done: too many calls, come back in `ms`",
    "latency": "the call starts `ms` later",
    "hang": "the call starts when the fault is released or removed, or `ms` later",
    "timeout-before-commit": "nothing is done and the answer is lost",
    "timeout-after-commit": "the work is done and the answer is lost",
    "error-after-commit": "the work is done, and the cloud answers an internal error all the same",
    "twice": "the work is done twice, as by a retrying proxy; the second answer counts",
    "late-visibility": "what the call makes is missing from lists and searches for `ms`",
    "vm-error-state": "the VM is made, and ends in state error",
    "slow-build": "the VM is made, and stays in state building for `ms`",
}
_NEEDS_MS = {"latency", "late-visibility", "slow-build"}
_COLUMNS = "id, method, mode, times, match, ms, code, retryable"


@dataclass(frozen=True, slots=True)
class Fault:
    """`times` None: until removed. `match`: only calls whose object has this text in its name, id or tags."""

    id: int
    method: str
    mode: str
    times: int | None
    match: str | None
    ms: int | None
    code: str | None
    retryable: bool | None

    def wire(self) -> dict[str, Any]:
        return asdict(self)


def add(
    store: Store,
    method: str,
    mode: str,
    *,
    times: int | None = None,
    match: str | None = None,
    ms: int | None = None,
    code: str | None = None,
    retryable: bool | None = None,
) -> Fault:
    """Bend calls whose name matches the glob `method`."""
    _validate(mode, times, ms, code)
    with store.writing() as db:
        row = db.execute(
            "INSERT INTO faults (method, mode, times, match, ms, code, retryable) VALUES (?,?,?,?,?,?,?)",
            (method, mode, times, match, ms, code, retryable),
        )
        _recount(db)
        return Fault(int(row.lastrowid or 0), method, mode, times, match, ms, code, retryable)


def list_faults(store: Store) -> list[Fault]:
    with store.reading() as db:
        return [_fault(row) for row in db.execute(f"SELECT {_COLUMNS} FROM faults ORDER BY id")]


def clear(store: Store, fault_id: int | None = None) -> int:
    """Remove one fault, or all; calls that hang in them go on. Answers how many there were."""
    with store.writing() as db:
        removed = db.execute("DELETE FROM faults WHERE id = coalesce(?, id)", (fault_id,)).rowcount
        _recount(db)
        return removed


def take(store: Store, method: str, subject: Callable[[sqlite3.Connection], str]) -> list[Fault]:
    """The faults that bend this call, each used up by one."""
    with store.writing() as db:
        rows = db.execute(f"SELECT {_COLUMNS} FROM faults WHERE times IS NULL OR times > 0 ORDER BY id").fetchall()
        taken = [fault for fault in map(_fault, rows) if _bends(fault, method, subject, db)]
        for fault in taken:
            db.execute("UPDATE faults SET times = times - 1 WHERE id = ?", (fault.id,))
        # a used-up hang stays until its call goes on: removing it is what releases the call
        db.execute("DELETE FROM faults WHERE times = 0 AND mode <> 'hang'")
        _recount(db)
    return taken


def holds(store: Store, fault: Fault) -> bool:
    """Whether a call that hangs in this fault must go on hanging."""
    with store.reading() as db:
        return db.execute("SELECT 1 FROM faults WHERE id = ?", (fault.id,)).fetchone() is not None


def forget_spent(store: Store, fault: Fault) -> None:
    with store.writing() as db:
        db.execute("DELETE FROM faults WHERE id = ? AND times = 0", (fault.id,))


def _validate(mode: str, times: int | None, ms: int | None, code: str | None) -> None:
    if mode not in MODES:
        raise BadRequest(f"there is no fault mode {mode!r}", remedy=f"use one of: {', '.join(MODES)}")
    if times is not None and times < 1:
        raise BadRequest(f"times is {times}", remedy="give a count of at least 1, or none for 'until removed'")
    if (ms is None and mode in _NEEDS_MS) or (ms is not None and ms < 0):
        raise BadRequest(f"mode {mode} needs ms, a number of milliseconds", remedy="add ms, for example 200")
    if code is not None and (mode != "error" or code not in INJECTABLE):
        raise BadRequest(
            f"code {code!r} does not fit mode {mode}", remedy=f"with mode error, use one of: {', '.join(INJECTABLE)}"
        )


def _bends(fault: Fault, method: str, subject: Callable[[sqlite3.Connection], str], db: sqlite3.Connection) -> bool:
    if not fnmatchcase(method, fault.method):
        return False
    return fault.match is None or fault.match in subject(db)


def _recount(db: sqlite3.Connection) -> None:
    db.execute("UPDATE switches SET faults = (SELECT count(*) FROM faults WHERE times IS NULL OR times > 0)")


def _fault(row: tuple[Any, ...]) -> Fault:
    return Fault(*(*row[:7], None if row[7] is None else bool(row[7])))
