"""The fleet in numbers: age of heartbeats, steps and nodes that no conductor serves. For the metrics page."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import conductors, steps
from coterie.ledger.views import conductor_groups
from coterie.ledger.views.counts import Counts
from coterie.ledger.work import conductors as fleet_rows
from coterie.ring.members import fold


def heartbeat_ages(tx: Tx) -> Counts:
    """Seconds since the heartbeat of each conductor, by name and group."""
    age = (now() - conductors.c.heartbeat).label("age")
    query = sa.select(conductors.c.name, conductors.c.conductor_group, age).order_by(conductors.c.name)
    return {(str(name), str(group)): max(0.0, float(found)) for name, group, found in tx.execute(query)}


def groups(tx: Tx) -> tuple[Counts, Counts]:
    """By group: its live conductors, and its nodes that none of them serves. Read once: it looks at every node."""
    every = conductor_groups.every(tx)
    return {(one["name"],): len(one["conductors"]) for one in every}, {(one["name"],): one["orphans"] for one in every}


def unserved_steps(tx: Tx) -> Counts:
    """Ready steps that wait because no live conductor of their group has their driver, with that reason."""
    ready = sa.select(steps.c.conductor_group, steps.c.driver, sa.func.count()).where(steps.c.state == "ready")
    fleet = fleet_rows.living(tx)
    found: Counter[tuple[str, ...]] = Counter()
    for group, driver, count in tx.execute(ready.group_by(steps.c.conductor_group, steps.c.driver)):
        if not fleet.table(group, driver).members:
            found[fold(group), driver or "", fleet.refusal(group, driver).code] += count
    return {key: float(count) for key, count in found.items()}
