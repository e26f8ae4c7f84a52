"""Conductors as the API shows them; group null is every group. Silence is measured by the database's clock."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import conductors, steps
from coterie.ledger.views.page import Page, Slice, fetch, when
from coterie.ledger.work.conductors import owner


def page(tx: Tx, part: Slice) -> Page:
    query = sa.select(*conductors.c, (now() - conductors.c.heartbeat).label("silent_s"))
    found = fetch(tx, query, [conductors.c.name], part)
    busy = _running(tx, [owner(row["name"], row["incarnation"]) for row in found.items])
    return Page(
        [
            {
                **{name: value for name, value in row.items() if name not in ("every_group", "flows", "ttl_s")},
                "conductor_group": None if row["every_group"] else row["conductor_group"],
                "lease_s": row["ttl_s"],
                "drivers": row["drivers"] or [],
                "running": busy.get(owner(row["name"], row["incarnation"]), 0),
                "silent_s": round(max(0.0, row["silent_s"]), 1),
                "started_at": when(row["started_at"]),
                "heartbeat": when(row["heartbeat"]),
            }
            for row in found.items
        ],
        found.next,
    )


def _running(tx: Tx, owners: list[str]) -> dict[str, int]:
    held = sa.select(steps.c.owner, sa.func.count()).where(steps.c.owner.in_(owners), steps.c.state == "running")
    return {str(name): count for name, count in tx.execute(held.group_by(steps.c.owner))}
