"""Jobs: rows with what is to be finished and its result. `worker` runs them."""

from __future__ import annotations

import json
import sqlite3
import uuid
from dataclasses import dataclass
from typing import Any

from coterie.sandbox.fronts.cloudstack import configuration
from coterie.sandbox.fronts.cloudstack.call import Call, Caller
from coterie.sandbox.fronts.cloudstack.refusals import refuse

PENDING, SUCCEEDED, FAILED = 0, 1, 2
TABLES = (
    "CREATE TABLE IF NOT EXISTS cloudstack_jobs (id TEXT PRIMARY KEY, account TEXT NOT NULL, admin INTEGER NOT NULL, "
    "user TEXT NOT NULL, command TEXT NOT NULL, params TEXT NOT NULL, subject TEXT NOT NULL, run_at REAL NOT NULL, "
    "created_at REAL NOT NULL, status INTEGER NOT NULL, result TEXT, completed_at REAL, origin TEXT NOT NULL, "
    "broken_vm INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS cloudstack_jobs_by_status ON cloudstack_jobs (status, run_at)",
    "CREATE INDEX IF NOT EXISTS cloudstack_jobs_by_subject ON cloudstack_jobs (subject, status)",
)
_COLUMNS = (
    "id, account, admin, user, command, params, subject, run_at, created_at, status, result, completed_at, origin, "
    "broken_vm"
)


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    caller: Caller
    command: str
    params: dict[str, Any]
    subject: str
    run_at: float
    created_at: float
    status: int
    result: Any
    completed_at: float | None
    origin: str
    broken_vm: bool


def require_fresh(call: Call, wanted: str | None) -> None:
    """A client may choose a job's uuid, once: that is its key against doing a thing twice."""
    if wanted is None:
        return
    try:
        uuid.UUID(wanted)
    except ValueError:
        raise refuse(f"customjobid {wanted} is no uuid") from None
    if find(call.tx.db, wanted):
        raise refuse(f"Unable to create a job with uuid {wanted}: it already exists")


def add(call: Call, subject: str, wanted: str | None) -> Job:
    tx, caller = call.tx, call.caller
    job = Job(
        wanted or tx.ids.uuid(),
        caller,
        call.command.name,
        call.params,
        subject,
        tx.now + configuration.number(tx.db, "coterie.job.ms") / 1000 + tx.twist.build_s,
        tx.now,
        PENDING,
        None,
        None,
        call.origin,
        tx.twist.broken_vm,
    )
    tx.db.execute(
        f"INSERT INTO cloudstack_jobs ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            *(job.id, caller.account, caller.admin, caller.user, job.command, json.dumps(job.params), job.subject),
            *(job.run_at, job.created_at, job.status, None, None, job.origin, job.broken_vm),
        ),
    )
    return job


def end(db: sqlite3.Connection, job: Job, status: int, result: Any, now: float) -> None:
    db.execute(
        "UPDATE cloudstack_jobs SET status = ?, result = ?, completed_at = ? WHERE id = ?",
        (status, json.dumps(result), now, job.id),
    )


def find(db: sqlite3.Connection, wanted: str) -> Job | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM cloudstack_jobs WHERE id = ?", (wanted,)).fetchone()
    return _job(row) if row else None


def pending(db: sqlite3.Connection) -> list[Job]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM cloudstack_jobs WHERE status = ? ORDER BY run_at", (PENDING,))
    return [_job(row) for row in rows.fetchall()]


def must_wait(db: sqlite3.Connection, job: Job) -> bool:
    """Whether an earlier job is at work on the same thing: the vendor does one after the other."""
    earlier = db.execute(
        "SELECT 1 FROM cloudstack_jobs WHERE subject = ?1 AND status = ?2 AND rowid < "
        "(SELECT rowid FROM cloudstack_jobs WHERE id = ?3)",
        (job.subject, PENDING, job.id),
    ).fetchone()
    return bool(job.subject and earlier)


def of_account(db: sqlite3.Connection, account: str) -> list[Job]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM cloudstack_jobs WHERE account = ? AND status = ? ORDER BY created_at",
        (account, PENDING),
    )
    return [_job(row) for row in rows.fetchall()]


def forget_old(db: sqlite3.Connection, now: float) -> None:
    oldest = now - 60 * configuration.number(db, "job.expire.minutes")
    db.execute("DELETE FROM cloudstack_jobs WHERE completed_at < ?", (oldest,))


def _job(row: tuple[Any, ...]) -> Job:
    wanted, account, admin, user, command, params, subject, run_at, created_at, status, result, ended, origin, bad = row
    caller = Caller(account, bool(admin), user)
    found = json.loads(result) if result else None
    return Job(
        wanted,
        caller,
        command,
        json.loads(params),
        subject,
        run_at,
        created_at,
        status,
        found,
        ended,
        origin,
        bool(bad),
    )
