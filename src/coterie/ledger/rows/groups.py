"""Server groups: one row per logical group and cloud; the row is there before the cloud is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import GroupMetadata
from coterie.group.change import require_move
from coterie.group.rules import adopt_foreign
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import instance_groups, server_group_users, server_groups
from coterie.ledger.writes import NOW, Write, update


@dataclass(frozen=True, slots=True)
class GroupRow:
    intent: str
    deployment: str
    name: str
    cloud: str
    cid: str | None
    policy: str | None
    metadata: dict[str, Any]
    state: str
    adopted: bool
    drift: list[str] | None


_LOCK = 0x7365_6367  # of the security groups of all deployments
_ROW = tuple(server_groups.c[name] for name in GroupRow.__slots__)


def get(tx: Tx, intent: str) -> GroupRow | None:
    row = tx.execute(sa.select(*_ROW).where(server_groups.c.intent == intent)).first()
    return GroupRow(*row) if row else None


def of_deployment(tx: Tx, deployment: str) -> list[GroupRow]:
    """Those that may be in a cloud, oldest first."""
    query = (
        sa.select(*_ROW)
        .where(server_groups.c.deployment == deployment, server_groups.c.state != "gone")
        .order_by(server_groups.c.intent)
    )
    return [GroupRow(*row) for row in tx.execute(query)]


def of_cloud(tx: Tx, cloud: str) -> list[GroupRow]:
    query = sa.select(*_ROW).where(server_groups.c.cloud == cloud, server_groups.c.state.in_(("live", "missing")))
    return [GroupRow(*row) for row in tx.execute(query)]


def security_group_holders(tx: Tx) -> dict[tuple[str, str], str]:
    """(cloud, name) → the deployment that a security group belongs to: the first of those that have it without adopting
    it. Since release 0.1.0 let several have it, the others count as if they had adopted it."""
    columns = (server_groups.c.deployment, server_groups.c.cloud, server_groups.c.metadata)
    query = sa.select(*columns).where(server_groups.c.state != "gone")
    found: dict[tuple[str, str], str] = {}
    for deployment, cloud, metadata in tx.execute(query.order_by(server_groups.c.created_at, server_groups.c.intent)):
        for one in metadata.get("security_groups") or ():
            if not one.get("adopt"):
                found.setdefault((cloud, one["name"]), deployment)
    return found


def own_metadata(row: GroupRow, holders: Mapping[tuple[str, str], str]) -> GroupMetadata:
    """What a server group was requested to be; security groups of other deployments count as adopted."""
    own = {name for (cloud, name), deployment in holders.items() if (cloud, deployment) == (row.cloud, row.deployment)}
    return adopt_foreign(GroupMetadata.of_wire(row.metadata), own)


def lock_security_groups(tx: Tx) -> None:
    """Until the transaction ends, no other one adds server groups with security groups."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def add(tx: Tx, intent: str, metadata: dict[str, Any], *, name: str, cloud: str) -> None:
    tx.execute(
        server_groups.insert().values(
            intent=intent,
            deployment=metadata["deployment"],
            name=name,
            cloud=cloud,
            policy=metadata["policy"],
            metadata=metadata,
            state="intended",
            adopted=bool(metadata["options"].get("adopt")),
            created_at=now(),
        )
    )


def rename(tx: Tx, names: Iterable[tuple[str, str]]) -> None:
    """Pairs of (intent, name): of server groups whose instance groups got other names. The clouds' names stay."""
    for intent, name in names:
        tx.execute(server_groups.update().where(server_groups.c.intent == intent).values(name=name))


def set_users(tx: Tx, deployment: str, users: Iterable[tuple[str, str]]) -> None:
    """Say which instance groups use which server groups: pairs of (instance group name, server group intent)."""
    ids = _instance_group_ids(tx, deployment)
    tx.execute(server_group_users.delete().where(server_group_users.c.instance_group.in_(list(ids.values()))))
    rows = [{"instance_group": ids[name], "server_group": intent} for name, intent in sorted(set(users))]
    if rows:
        tx.execute(server_group_users.insert(), rows)


def users_of(tx: Tx, deployment: str) -> dict[tuple[str, str], str]:
    """(instance group, cloud) → the server group that its nodes there shall be in, by the newest accepted plan."""
    query = (
        sa.select(instance_groups.c.name, server_groups.c.cloud, server_groups.c.intent)
        .join(server_group_users, server_group_users.c.instance_group == instance_groups.c.id)
        .join(server_groups, server_groups.c.intent == server_group_users.c.server_group)
        .where(instance_groups.c.deployment == deployment, server_groups.c.state != "gone")
    )
    return {(name, cloud): intent for name, cloud, intent in tx.execute(query)}


def set_instance_groups(tx: Tx, deployment: str, wanted: Mapping[str, str | None]) -> None:
    """`wanted`: the conductor group of each instance group; None: it has none of its own."""
    present = _instance_group_ids(tx, deployment)
    for name in sorted(wanted.keys() - present.keys()):
        tx.execute(instance_groups.insert().values(deployment=deployment, name=name))
    for name, group in sorted(wanted.items()):
        differs = instance_groups.c.conductor_group.is_distinct_from(group)
        mine = sa.and_(instance_groups.c.deployment == deployment, instance_groups.c.name == name)
        tx.execute(instance_groups.update().where(mine, differs).values(conductor_group=group))
    dropped = [present[name] for name in sorted(present.keys() - wanted.keys())]
    tx.execute(server_group_users.delete().where(server_group_users.c.instance_group.in_(dropped)))
    tx.execute(instance_groups.delete().where(instance_groups.c.id.in_(dropped)))


def _instance_group_ids(tx: Tx, deployment: str) -> dict[str, int]:
    query = sa.select(instance_groups.c.name, instance_groups.c.id).where(instance_groups.c.deployment == deployment)
    return dict(tx.execute(query).all())


def record_drift(intent: str, drift: list[str] | None) -> Write:
    """What of the group in the cloud differs from its row; None: nothing."""
    return update("server_groups", {"intent": intent}, drift=drift)


def record_metadata(intent: str, metadata: Mapping[str, Any]) -> Write:
    """The group in the cloud was updated to this."""
    return update("server_groups", {"intent": intent}, metadata=metadata, drift=None)


def move(seen: GroupRow, state: str, cid: str | None = None) -> Write:
    """Take a group on in its life, if it is still in the state that was seen. Without `cid` its id stays."""
    require_move(seen.state, state)
    values: dict[str, Any] = {"ended_at": NOW} if state == "gone" else {}
    if cid is not None:
        values["cid"] = cid
    return update("server_groups", {"intent": seen.intent, "state": seen.state}, state=state, **values)
