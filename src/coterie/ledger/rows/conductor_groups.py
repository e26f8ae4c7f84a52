"""Which conductor group the work of a node runs in: the node's own, else that of its instance group, its az, its cloud.

What is of no node (server groups, images, disks without a node, looks, surveys, questions) runs in the cloud's group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds, instance_groups, nodes

OF_NODE = sa.func.coalesce(nodes.c.conductor_group, nodes.c.inherited_group, clouds.c.conductor_group, "")
_OF_INSTANCE_GROUP = sa.and_(
    instance_groups.c.deployment == nodes.c.deployment, instance_groups.c.name == nodes.c.instance_group
)
_CONFIGURED = nodes.join(clouds, clouds.c.name == nodes.c.cloud)


def of_nodes(tx: Tx, deployment: str) -> dict[str, str]:
    """The group of every node of a deployment whose cloud is configured, by uuid."""
    query = sa.select(nodes.c.uuid, OF_NODE).select_from(_CONFIGURED).where(nodes.c.deployment == deployment)
    return dict(tx.execute(query).all())


def of_node(tx: Tx, uuid: str) -> str | None:
    """None: there is no such node, or its cloud is not configured."""
    group: str | None = tx.execute(sa.select(OF_NODE).select_from(_CONFIGURED).where(nodes.c.uuid == uuid)).scalar()
    return group


def set_apart(tx: Tx, cloud: str, groups: Iterable[str]) -> dict[str, str]:
    """Of these groups, those that nodes of the cloud have of their own or by their instance group; with one node."""
    held = sa.func.coalesce(nodes.c.conductor_group, instance_groups.c.conductor_group)
    named = (held, nodes.c.enrolled, nodes.c.deployment, nodes.c.instance_group, nodes.c["index"])
    query = sa.select(*named).select_from(nodes.outerjoin(instance_groups, _OF_INSTANCE_GROUP))
    found = tx.execute(query.where(nodes.c.cloud == cloud, held.in_(sorted(groups))))
    return {group: name[1] if enrolled else "/".join(map(str, name)) for group, enrolled, *name in found}


def find_changes_by_azs(tx: Tx, azs: Mapping[str, str | None]) -> dict[str, str | None]:
    """What nodes will inherit when azs have these groups (None: no own one); only those for which that changes."""
    concerned = sa.or_(
        nodes.c.inherited_group.is_not(None),
        nodes.c.az.in_(sorted(az for az, group in azs.items() if group is not None)),
    )
    query = (
        sa.select(nodes.c.uuid, nodes.c.az, nodes.c.inherited_group, instance_groups.c.conductor_group)
        .select_from(nodes.outerjoin(instance_groups, _OF_INSTANCE_GROUP))
        .where(concerned, nodes.c.enrolled.is_(sa.false()))
    )
    changed: dict[str, str | None] = {}
    for uuid, az, before, own in tx.execute(query):
        after = azs.get(az) if own is None else own
        if after != before:
            changed[uuid] = after
    return changed


def inherit(tx: Tx, wanted: Mapping[str, str | None]) -> None:
    """Store what these nodes inherit."""
    changed = nodes.update().where(nodes.c.uuid == sa.bindparam("b_uuid"))
    rows = [{"b_uuid": uuid, "b_group": group} for uuid, group in wanted.items()]
    if rows:
        tx.execute(changed.values(inherited_group=sa.bindparam("b_group")), rows)
