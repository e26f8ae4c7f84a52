"""Server groups as the API shows them: one row per cloud, the instance groups that use it, its members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.group.audit import remedy
from coterie.ledger.store import Tx
from coterie.ledger.tables import facts, instance_groups, nodes, server_group_users, server_groups
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when
from coterie.ledger.visibility import visible

_COLUMNS = ("intent", "cid", "name", "deployment", "cloud", "policy", "adopted", "drift", "metadata")
_KEYS = tuple(server_groups.c[name] for name in ("deployment", "name", "cloud", "intent"))
# a live group that is not as it was made is shown as drifted
_drifted = sa.and_(server_groups.c.state == "live", server_groups.c.drift.is_not(None))
_TROUBLE = ("missing", "drifted")
_seen_state = sa.case((_drifted, "drifted"), else_=server_groups.c.state)


def page(tx: Tx, part: Slice, *, state: str | None = None, **wanted: str | None) -> Page:
    """Filters: deployment, cloud, name, state. Those that are gone are shown only with state=gone."""
    query = matching(_all(), {server_groups.c[name]: value for name, value in wanted.items()})
    query = query.where(_seen_state == state if state else _seen_state != "gone")
    found = fetch(tx, query, _KEYS, part, filters=wanted)
    return Page(_view(tx, found.items), found.next)


def one(tx: Tx, which: str) -> Row:
    """A group by CID or intent, with its members."""
    mine = sa.or_(server_groups.c.cid == which, server_groups.c.intent == which)
    newest = _all().where(mine).order_by(server_groups.c.created_at.desc())
    row = tx.execute(newest).mappings().first()
    if row is None:
        raise NotFound(f"no server group {which!r}", remedy="list them with `coterie groups`")
    return {**_view(tx, [dict(row)])[0], "members": _members(tx, row["intent"])}


def _all() -> sa.Select[Any]:
    return sa.select(
        *[server_groups.c[name] for name in _COLUMNS],
        _seen_state.label("state"),
        server_groups.c.created_at,
        server_groups.c.ended_at,
    ).where(visible(server_groups.c.deployment))


def _view(tx: Tx, rows: list[Row]) -> list[Row]:
    intents = [row["intent"] for row in rows]
    users, sizes = _users(tx, intents), _sizes(tx, intents)
    movers = _movers(tx, {row["cloud"] for row in rows if row["state"] in _TROUBLE})
    return [
        {
            **row,
            "drift": row["drift"] or [],
            "remedy": _remedy(row, row["cloud"] in movers),
            "instance_groups": users[row["intent"]],
            "size": sizes.get(row["intent"], 0),
            "created_at": when(row["created_at"]),
            "ended_at": when(row["ended_at"]),
        }
        for row in rows
    ]


def _remedy(row: Row, moves_members: bool) -> str:
    """By the rows alone. Whether a group still drifts only the cloud can say: there a fresh look is worth it."""
    if row["state"] == "drifted":
        return f"`coterie groups show {row['name']}` tells what is wrong, and what to do"
    found = remedy(row["state"], moves_members=moves_members, adopted=row["adopted"])
    return found.replace("NAME", row["name"])


def _movers(tx: Tx, clouds: Iterable[str]) -> set[str]:
    """Clouds whose last answer was that running VMs can change their group."""
    return {cloud for cloud in sorted(clouds) if moves_members(tx, cloud)}


def moves_members(tx: Tx, cloud: str) -> bool:
    check = sa.and_(facts.c.cloud == cloud, facts.c.what.startswith("check:"), facts.c.at.is_not(None))
    newest_first = sa.select(facts.c.data).where(check).order_by(facts.c.at.desc())
    for data in tx.execute(newest_first).scalars():
        if data:  # a refusal is an answer without data
            return bool(data["capabilities"].get("moves_members"))
    return False


def _users(tx: Tx, intents: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    query = (
        sa.select(server_group_users.c.server_group, instance_groups.c.name)
        .join(instance_groups, instance_groups.c.id == server_group_users.c.instance_group)
        .where(server_group_users.c.server_group.in_(intents))
        .order_by(instance_groups.c.name)
    )
    for intent, name in tx.execute(query):
        found[intent].append(name)
    return found


def _sizes(tx: Tx, intents: Sequence[str]) -> dict[str, int]:
    in_group = nodes.c.server_group
    query = sa.select(in_group, sa.func.count()).where(in_group.in_(intents)).group_by(in_group)
    return {str(intent): count for intent, count in tx.execute(query)}


def _members(tx: Tx, intent: str) -> list[Row]:
    query = (
        sa.select(nodes.c.uuid, nodes.c.instance_group, nodes.c["index"], nodes.c.az, nodes.c.host, nodes.c.vm_cid)
        .where(nodes.c.server_group == intent)
        .order_by(nodes.c.instance_group, nodes.c["index"])
    )
    return [
        {"uuid": uuid, "name": f"{group}/{index}", "az": az, "host": host, "vm_cid": vm_cid}
        for uuid, group, index, az, host, vm_cid in tx.execute(query)
    ]
