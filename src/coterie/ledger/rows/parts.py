"""Parts of objects: what was created beside an object under its mark, with the cloud's ids. Rows stay when the part is
gone: then they show that what bears the same mark is a copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from coterie.cpi.contract import Kind, Part
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import nodes, parts, server_groups
from coterie.ledger.writes import NOW, Write, insert

LATE_S = 900.0  # longer than any call may take: what a lost call creates is there by then


def begin(cloud: str, intent: str, kind: Kind) -> Write:
    """Of a VM or server group: its parts are recorded, so that without another row it has none. Objects that older
    releases created have no row at all."""
    return insert("parts", cloud=cloud, intent=intent, kind=kind, name="", created_at=NOW)


def intend(tx: Tx, cloud: str, intent: str, kind: Kind, name: str) -> None:
    row = {"cloud": cloud, "intent": intent, "kind": kind, "name": name}
    tx.execute(parts.insert().values(**row, created_at=now()))


def record(tx: Tx, cloud: str, intent: str, kind: Kind, name: str, cid: str) -> None:
    """Give the id to an intent without one; without such an intent, or if it is recorded already, see to one row."""
    same = sa.select(parts.c.id).where(parts.c.intent == intent, parts.c.kind == kind, parts.c.cid == cid)
    if tx.execute(same.limit(1)).first() is not None:
        return
    if tx.execute(parts.update().where(parts.c.id == _open(intent, kind, name)).values(cid=cid)).rowcount == 0:
        row = {"cloud": cloud, "intent": intent, "kind": kind, "name": name, "cid": cid}
        tx.execute(parts.insert().values(**row, created_at=now()))


def withdraw(tx: Tx, intent: str, kind: Kind, name: str) -> None:
    """Forget one intent without an id."""
    tx.execute(parts.delete().where(parts.c.id == _open(intent, kind, name)))


def list_of(tx: Tx, intents: Sequence[str]) -> dict[str, list[Part]]:
    """By intent."""
    return _by_intent(tx, parts.c.intent.in_(intents))


def list_of_cloud(tx: Tx, cloud: str) -> dict[str, list[Part]]:
    return _by_intent(tx, parts.c.cloud == cloud)


def of_deployment(tx: Tx, deployment: str) -> dict[str, tuple[str, ...]]:
    """Kind and id of what was created with its VMs and server groups, by intent; it may be gone."""
    vms = sa.select(nodes.c.vm_intent).where(nodes.c.deployment == deployment)
    groups = sa.select(server_groups.c.intent).where(server_groups.c.deployment == deployment)
    found = _by_intent(tx, sa.or_(parts.c.intent.in_(vms), parts.c.intent.in_(groups)))
    return {intent: tuple(f"{one.kind} {one.cid}" for one in beside if one.cid) for intent, beside in found.items()}


def _by_intent(tx: Tx, which: sa.ColumnElement[bool]) -> dict[str, list[Part]]:
    """An intent without an id stands for a part that may be there, unless it is old and a later call created the part:
    then the earlier one came to nothing, and what bears the mark beside the later one's part is a copy."""
    row = parts.c
    query = sa.select(row.intent, row.kind, row.name, row.cid, (now() - row.created_at).label("age")).where(which)
    found: dict[str, list[Part]] = defaultdict(list)
    created_later = set()
    for one in reversed(tx.execute(query.order_by(row.id)).all()):
        key = (one.intent, one.kind, one.name)
        if one.cid is not None:
            created_later.add(key)
        elif one.age > LATE_S and key in created_later:
            continue
        found[one.intent].insert(0, Part(one.kind, one.name, one.cid))
    return dict(found)


def _open(intent: str, kind: Kind, name: str) -> sa.ScalarSelect[int]:
    """The newest intent without an id: the call that asks is the last that began."""
    same = sa.and_(parts.c.intent == intent, parts.c.kind == kind, parts.c.name == name, parts.c.cid.is_(None))
    return sa.select(sa.func.max(parts.c.id)).where(same).scalar_subquery()
