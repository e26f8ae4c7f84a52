"""What keeps a cloud in the cloud config, and the command that removes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import sqlalchemy as sa

from coterie.ledger.rows.objects import OPEN
from coterie.ledger.store import Tx
from coterie.ledger.tables import deployments, nodes, objects, server_groups

_SHOWN = 5


class Content(NamedTuple):
    what: str
    remedy: str


def list_contents(tx: Tx, clouds: Iterable[str]) -> list[Content]:
    """The only thing in a cloud may be a disk that a deleted deployment left: that is said as it is."""
    return [content for cloud in clouds for content in _of_cloud(tx, cloud)]


def _of_cloud(tx: Tx, cloud: str) -> Iterator[Content]:
    using = _deployments(tx, cloud)
    yield from (Content(f"deployment {name}", f"delete it: coterie delete {name}") for name in using[:_SHOWN])
    if len(using) > _SHOWN:
        yield Content(f"{len(using) - _SHOWN} more deployments", "see `coterie deployments`")
    held = sa.and_(objects.c.cloud == cloud, objects.c.state.in_(OPEN))
    kept = sa.and_(held, objects.c.kind == "disk", objects.c.state == "kept")
    count, size = tx.execute(sa.select(sa.func.count(), sa.func.sum(objects.c.size_mb)).where(kept)).one()
    if count:
        way = f"delete the disks with their data: coterie disks delete --cloud {cloud}"
        yield Content(f"{count} kept disks ({size} MiB)", way)
    enrolled = sa.and_(nodes.c.cloud == cloud, nodes.c.enrolled.is_(sa.true()))
    for name in tx.execute(
        sa.select(nodes.c.instance_group).where(enrolled).order_by(nodes.c.instance_group)
    ).scalars():
        yield Content(f"enrolled node {name}", f"forget it: coterie nodes delete {name}")
    rest = tx.execute(sa.select(sa.func.count()).where(held, sa.not_(kept))).scalar_one()
    if rest and not using:
        yield Content(f"{rest} other objects", "remove what was left behind: coterie cleanup")


def _deployments(tx: Tx, cloud: str) -> list[str]:
    named = deployments.c.name
    with_nodes = sa.select(nodes.c.deployment).where(nodes.c.cloud == cloud)
    with_groups = sa.select(server_groups.c.deployment).where(
        server_groups.c.cloud == cloud, server_groups.c.state != "gone"
    )
    query = sa.select(named).where(sa.or_(named.in_(with_nodes), named.in_(with_groups)))
    return list(tx.execute(query.order_by(named)).scalars())
