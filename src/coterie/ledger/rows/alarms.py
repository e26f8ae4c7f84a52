"""Alarms of clouds: while a cloud has one, nothing in it is recreated, resurrected or cleaned up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.store import Tx
from coterie.ledger.tables import cloud_alarms
from coterie.ledger.writes import NOW, Write, delete, insert, update

MELTDOWN = "meltdown"  # many nodes vanished within one look
MOVED = "moved"  # its properties lead to another account than the one that our objects are in
TWIN = "twin"  # another ledger works under this Director's uuid


class Alarm(NamedTuple):
    cloud: str
    kind: str
    since: float
    body: str


def of_clouds(tx: Tx, clouds: Iterable[str] | None = None) -> dict[str, list[Alarm]]:
    """By cloud; of these clouds, or of all."""
    query = sa.select(*[cloud_alarms.c[name] for name in Alarm._fields]).order_by(cloud_alarms.c.since)
    if clouds is not None:
        query = query.where(cloud_alarms.c.cloud.in_(sorted(clouds)))
    found: dict[str, list[Alarm]] = {}
    for row in tx.execute(query):
        found.setdefault(row.cloud, []).append(Alarm(*row))
    return found


def refuse(tx: Tx, clouds: Iterable[str]) -> None:
    """Raises the first alarm of these clouds."""
    for cloud, rung in sorted(of_clouds(tx, clouds).items()):
        raise Conflict(
            f"cloud {cloud} has an alarm: {rung[0].body}",
            remedy=remedy(cloud),
            details={"cloud": cloud, "alarms": [alarm.kind for alarm in rung]},
        )


def remedy(cloud: str) -> str:
    return f"look into the cloud; then mend it, or accept its state as it is: coterie clouds accept {cloud}"


def ring(known: Iterable[Alarm], cloud: str, kind: str, body: str) -> Write:
    """`known`: the alarms of the cloud as they were read. One that rings already gets the new text."""
    if any(alarm.kind == kind for alarm in known):
        return update("cloud_alarms", {"cloud": cloud, "kind": kind}, body=body)
    return insert("cloud_alarms", cloud=cloud, kind=kind, since=NOW, body=body)


def end(cloud: str, kind: str) -> Write:
    return delete("cloud_alarms", {"cloud": cloud, "kind": kind})


def end_all(tx: Tx, cloud: str) -> list[str]:
    """The kinds of the alarms that ended."""
    ended = cloud_alarms.delete().where(cloud_alarms.c.cloud == cloud).returning(cloud_alarms.c.kind)
    return sorted(tx.execute(ended).scalars())
