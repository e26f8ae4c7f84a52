"""Accounts: the tenants of the datacenter, and how it behaves for each. Limits are in `quotas`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from coterie.sandbox import networks
from coterie.sandbox.datacenter import Account, Datacenter
from coterie.sandbox.errors import BadRequest
from coterie.sandbox.quotas import RESOURCES, unknown_account, validate
from coterie.sandbox.twist import Tx

# direct: a group may be empty, a VM joins in the call that boots it · single-writer: a group is one list of at least
# one member, and writing the list replaces it
MODELS = ("direct", "single-writer")


def open_account(
    datacenter: Datacenter,
    name: str,
    *,
    groups: str | None = None,
    soft_lag_ms: int | None = None,
    quotas: Mapping[str, int | None] | None = None,
    operator: bool = False,
    slot: Callable[[str], AbstractContextManager[object]] = lambda method: nullcontext(),
) -> Account:
    """The account of this name, begun if it is new.

    Values are applied when they differ from the last ones given, so that an operator's later changes stay.
    """
    asked = {"groups": groups, "soft_lag_ms": soft_lag_ms, "quotas": dict(quotas or {})}
    with datacenter.store.reading() as db:
        known = db.execute("SELECT asked FROM accounts WHERE name = ?", (name,)).fetchone()
    if known is None or (not operator and json.loads(known[0]) != asked):
        _settle(datacenter, name, asked, quotas or {})
    return Account(datacenter, name, operator, slot)


def group_model(tx: Tx) -> str:
    return str(_setting(tx, "groups"))


def soft_lag_s(tx: Tx) -> float:
    """How long ago the scheduler's picture of a soft group was taken."""
    return int(_setting(tx, "soft_lag_ms")) / 1000


def _settle(datacenter: Datacenter, name: str, asked: dict[str, Any], quotas: Mapping[str, int | None]) -> None:
    validate(quotas)
    if asked["groups"] not in (None, *MODELS):
        raise BadRequest(f"groups is {asked['groups']!r}", remedy=f"use one of: {', '.join(MODELS)}")
    values = (name, asked["groups"] or MODELS[0], asked["soft_lag_ms"] or 0, json.dumps(asked))
    with datacenter.store.writing() as db:
        fresh = db.execute("INSERT OR IGNORE INTO accounts VALUES (?,?,?,?)", values).rowcount
        db.execute("UPDATE accounts SET groups = ?2, soft_lag_ms = ?3, asked = ?4 WHERE name = ?1", values)
        if fresh:
            db.executemany("INSERT INTO usage (account, resource) VALUES (?,?)", [(name, kind) for kind in RESOURCES])
            networks.furnish(Tx(db, name, datacenter.clock(), datacenter.ids))
        db.executemany(
            "UPDATE usage SET ceiling = ? WHERE account = ? AND resource = ?",
            [(ceiling, name, resource) for resource, ceiling in quotas.items()],
        )


def _setting(tx: Tx, column: str) -> Any:
    row = tx.db.execute(f"SELECT {column} FROM accounts WHERE name = ?", (tx.account,)).fetchone()
    if row is None:
        raise unknown_account(tx.account)
    return row[0]
