"""Conductor groups: the conductors in each, what depends on it, and what none of them could run."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from coterie.ledger.rows import clouds
from coterie.ledger.store import Tx
from coterie.ledger.views.ring import placed
from coterie.ledger.work import conductors
from coterie.ring.members import Member, fold


def every(tx: Tx) -> list[dict[str, Any]]:
    """Groups that a conductor, a cloud or a node names. `orphans`: nodes that no live conductor serves."""
    fleet = conductors.living(tx)
    members: dict[str, list[Member]] = defaultdict(list)
    for member in fleet.members:
        if not member.every_group:
            members[member.group].append(member)
    served: dict[str, list[str]] = defaultdict(list)
    for cloud in clouds.all_clouds(tx).values():
        for group in cloud.groups:
            served[fold(group)].append(cloud.name)
    nodes, orphans = Counter[str](), Counter[str]()
    for node in placed(tx):
        nodes[fold(node.group)] += 1
        orphans[fold(node.group)] += not fleet.table(node.group, node.driver).members
    stand_ins = [member.name for member in fleet.members if member.every_group]
    return [
        {
            "name": name,
            "conductors": [member.name for member in members[name]],
            "stand_ins": stand_ins,
            "drivers": sorted({driver for member in members[name] for driver in member.drivers}),
            "clouds": served[name],
            "nodes": nodes[name],
            "orphans": orphans[name],
        }
        for name in sorted({*members, *served, *nodes})
    ]
