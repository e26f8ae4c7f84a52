"""Answers about rings: the owner of each node and why, and which nodes a change of the fleet would move. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from coterie.director.context import AppContext
from coterie.errors import NotFound, UsageError
from coterie.ledger.views import nodes
from coterie.ledger.views.ring import placed, placed_one
from coterie.ledger.work import conductors
from coterie.ring.members import Member, group_name
from coterie.ring.owner import Fleet, Table
from coterie.ring.what_if import Placed, moves, owner_name

Json = dict[str, Any]


def show(context: AppContext) -> Json:
    with context.ledger.read() as tx:
        fleet, found = conductors.living(tx), placed(tx)
    receive_counted = Counter((fleet.key(node.group, node.driver), owner_name(fleet, node)) for node in found)
    keys = {**fleet.keys(), **{fleet.key(n.group, n.driver): fleet.table(n.group, n.driver).members for n in found}}
    return {
        "groups_count": fleet.grouped,
        "rings": [
            {
                "key": key,
                "algorithm": Table(members).algorithm,
                "members": [
                    {"name": m.name, "weight": m.weight, "nodes": receive_counted[key, m.name]} for m in members
                ],
                "orphans": receive_counted[key, None],
            }
            for key, members in sorted(keys.items())
        ],
    }


def explain(context: AppContext, which: str) -> Json:
    with context.ledger.read() as tx:
        node = nodes.one(tx, which)
        fleet, place = conductors.living(tx), placed_one(tx, node["uuid"])
    if place is None:
        raise NotFound(f"cloud {node['cloud']} of this node is not configured", remedy="see `coterie clouds`")
    table = fleet.table(place.group, place.driver)
    owner = owner_name(fleet, place)
    return {
        "node": place.name,
        "uuid": place.uuid,
        "key": fleet.key(place.group, place.driver),
        "conductor_group": place.group,
        "inherited": node["conductor_group"] is None,
        "driver": place.driver,
        "groups_count": fleet.grouped,
        "algorithm": table.algorithm,
        "ring": [member.name for member in table.members],
        "conductor": owner,
        "why": _why(fleet, place, owner),
    }


def what_if(context: AppContext, without: Sequence[str], added: Sequence[str]) -> Json:
    with context.ledger.read() as tx:
        before, found = conductors.living(tx), placed(tx)
    after = _fleet_after(before, without, added)
    moved = moves(before, after, found)
    return {
        "nodes": len(found),
        "moved": sum(moved.values()),
        "orphaned": sum(count for (_, to), count in moved.items() if to is None),
        "moves": [{"from": a, "to": b, "nodes": count} for (a, b), count in moved.most_common()],
    }


def _fleet_after(fleet: Fleet, without: Sequence[str], added: Sequence[str]) -> Fleet:
    missing = sorted(set(without) - {member.name for member in fleet.members})
    if missing:
        raise NotFound(f"no live conductor {missing[0]!r}", remedy="list them with `coterie conductors`")
    new = [_member(text) for text in added]
    gone = {*without, *(member.name for member in new)}
    return Fleet([*(member for member in fleet.members if member.name not in gone), *new])


def _member(text: str) -> Member:
    name, _, rest = text.partition(":")
    group, _, drivers = rest.partition(":")
    if not name or not drivers:
        raise UsageError(
            f"{text!r} does not describe a conductor", remedy="write NAME:GROUP:DRIVERS, as c9:rack1:vsphere,openstack"
        )
    return Member(name, group_name(group, "with"), frozenset(one.strip() for one in drivers.split(",")))


def _why(fleet: Fleet, place: Placed, owner: str | None) -> str:
    if owner is None:
        return f"{fleet.refusal(place.group, place.driver).what}; its steps wait"
    members = fleet.table(place.group, place.driver).members
    if any(member.every_group for member in members) and fleet.grouped:
        return f"no conductor of the group has driver {place.driver}; {owner} serves every group"
    if len(members) == 1:
        return f"{owner} is the only member of its ring"
    return f"its uuid falls to {owner} among the {len(members)} members of its ring"
