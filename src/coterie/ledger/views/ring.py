"""The columns of nodes that rings need: the uuid, the group in force and the driver."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.ledger.rows.conductor_groups import OF_NODE
from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds, nodes
from coterie.ring.what_if import Placed


def placed(tx: Tx) -> list[Placed]:
    """Every node whose cloud is configured."""
    return [_placed(row) for row in tx.execute(_PLACED)]


def placed_one(tx: Tx, uuid: str) -> Placed | None:
    row = tx.execute(_PLACED.where(nodes.c.uuid == uuid)).first()
    return _placed(row) if row else None


def _placed(row: Any) -> Placed:
    name = row.instance_group if row.enrolled else f"{row.deployment}/{row.instance_group}/{row.index}"
    return Placed(row.uuid, name, row.group, row.driver)


_PLACED = sa.select(
    nodes.c.uuid,
    nodes.c.deployment,
    nodes.c.instance_group,
    nodes.c["index"],
    nodes.c.enrolled,
    OF_NODE.label("group"),
    clouds.c.driver,
).select_from(nodes.join(clouds, clouds.c.name == nodes.c.cloud))
