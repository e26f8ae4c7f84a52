"""Global settings of the simulated management server, by the vendor's names; those of our own begin with `coterie.`."""

from __future__ import annotations

import sqlite3

from coterie.sandbox.fronts.cloudstack.refusals import refuse

# name → default, what it is for
KNOWN: dict[str, tuple[str, str]] = {
    "expunge.delay": ("86400", "seconds that a destroyed VM waits before it may be expunged"),
    "expunge.interval": ("86400", "seconds between two looks for VMs to expunge"),
    "allow.user.expunge.recover.vm": ("false", "whether users may expunge and recover their VMs"),
    "allow.user.view.destroyed.vm": ("false", "whether users see their destroyed VMs"),
    "vm.userdata.max.length": ("32768", "bytes of userdata after decoding"),
    "job.expire.minutes": ("1440", "minutes after which a finished job is forgotten"),
    "coterie.job.ms": ("0", "how long a job waits before it works"),
    "coterie.security.groups": ("false", "whether zones have security groups"),
    "coterie.strict.parameters": ("true", "whether unknown parameters are refused"),
    "coterie.forget.affinity": ("false", "schedule as if no VM were in an affinity group, as parallel deploys may do"),
    "coterie.storage.vms": ("true", "whether the storage VMs are connected"),
    "coterie.loopback.urls": ("false", "whether templates may be fetched from this machine"),
}
TABLE = "CREATE TABLE IF NOT EXISTS cloudstack_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


def text(db: sqlite3.Connection, name: str) -> str:
    row = db.execute("SELECT value FROM cloudstack_settings WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else KNOWN[name][0]


def flag(db: sqlite3.Connection, name: str) -> bool:
    return text(db, name).lower() == "true"


def number(db: sqlite3.Connection, name: str) -> float:
    return float(text(db, name))


def change(db: sqlite3.Connection, name: str, value: str) -> None:
    if name not in KNOWN:
        raise refuse(f"Config parameter with name {name} doesn't exist")
    db.execute("INSERT OR REPLACE INTO cloudstack_settings VALUES (?,?)", (name, value))
