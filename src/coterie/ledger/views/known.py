"""Whether a name in a filter is, or was, one of ours: an empty list must not hide a typing error."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds, deployments, instance_groups, nodes, objects, server_groups, tasks
from coterie.ledger.visibility import visible

# Deployments that are gone are still known by their tasks and by what they left.
_DEPLOYMENTS = (deployments.c.name, *[table.c.deployment for table in (nodes, server_groups, objects, tasks)])
_CLOUDS = (clouds.c.name, nodes.c.cloud, server_groups.c.cloud, objects.c.cloud)


def deployment(tx: Tx, name: str) -> bool:
    return _somewhere(tx, *[sa.and_(column == name, visible(column)) for column in _DEPLOYMENTS])


def cloud(tx: Tx, name: str) -> bool:
    return _somewhere(tx, *[column == name for column in _CLOUDS])


def instance_group(tx: Tx, name: str) -> bool:
    mine = sa.and_(instance_groups.c.name == name, visible(instance_groups.c.deployment))
    return _somewhere(tx, mine, sa.and_(nodes.c.instance_group == name, visible(nodes.c.deployment)))


def az(tx: Tx, name: str) -> bool:
    """One that something of ours is or was in; others are known to the cloud config only."""
    return _somewhere(tx, nodes.c.az == name, objects.c.az == name)


def _somewhere(tx: Tx, *conditions: sa.ColumnElement[bool]) -> bool:
    return any(tx.execute(sa.select(sa.literal(1)).where(one).limit(1)).first() is not None for one in conditions)
