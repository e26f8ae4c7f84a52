"""Objects of callers without our Director: the same rows and lives as in `objects`, each with the caller's uuid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import Kind
from coterie.ledger.rows.objects import OPEN
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import objects


@dataclass(frozen=True, slots=True)
class Intent:
    intent: str
    kind: Kind
    cloud: str
    director: str
    state: str
    cid: str | None
    ref: str | None
    properties: dict[str, Any] | None
    server_group: str | None
    created_at: float
    doubt_since: float | None

    @property
    def open(self) -> bool:
        """Whether it may be in the cloud."""
        return self.state in OPEN


_ROW = tuple(objects.c[name] for name in Intent.__slots__)


def intend(
    tx: Tx,
    intent: str,
    kind: Kind,
    cloud: str,
    director: str,
    *,
    ref: str | None = None,
    properties: dict[str, Any] | None = None,
    server_group: str | None = None,
) -> None:
    tx.execute(
        objects.insert().values(
            intent=intent,
            kind=kind,
            cloud=cloud,
            director=director,
            state="intended",
            ref=ref,
            properties=properties,
            server_group=server_group,
            created_at=now(),
        )
    )


def landed(tx: Tx, intent: str, cid: str, properties: dict[str, Any] | None = None) -> None:
    values: dict[str, Any] = {"state": "live", "cid": cid, "doubt_since": None}
    if properties is not None:
        values["properties"] = properties
    _move(tx, intent, **values)


def doubted(tx: Tx, intent: str) -> None:
    """From the first doubt on the settle time counts."""
    _move(tx, intent, state="unknown", doubt_since=sa.func.coalesce(objects.c.doubt_since, now()))


def deleting(tx: Tx, intent: str, cid: str) -> None:
    _move(tx, intent, state="deleting", cid=cid)


def revived(tx: Tx, intent: str) -> None:
    """A deletion that certainly did not happen."""
    _move(tx, intent, state="live")


def gone(tx: Tx, intent: str, *, tombstone: bool = False) -> None:
    _move(tx, intent, state="gone", tombstone=tombstone, ended_at=now())


def of_agent(tx: Tx, cloud: str, director: str, agent_id: str) -> list[Intent]:
    """Every VM that was ever begun for this agent, oldest first."""
    mine = sa.and_(objects.c.kind == "vm", objects.c.cloud == cloud, objects.c.director == director)
    query = sa.select(*_ROW).where(mine, objects.c.ref == agent_id).order_by(objects.c.created_at, objects.c.intent)
    return [Intent(*row) for row in tx.execute(query)]


def open_of_agent(tx: Tx, cloud: str, director: str, agent_id: str) -> list[Intent]:
    """Those that may be in the cloud."""
    return [row for row in of_agent(tx, cloud, director, agent_id) if row.open]


def by_cid(tx: Tx, kind: Kind, cloud: str, director: str, cid: str) -> Intent | None:
    query = sa.select(*_ROW).where(objects.c.cid == cid, objects.c.kind == kind, objects.c.cloud == cloud)
    open_ones = objects.c.director == director, objects.c.state.in_(OPEN)
    row = tx.execute(query.where(*open_ones)).first()
    return Intent(*row) if row else None


def of_caller(tx: Tx, cloud: str, director: str) -> list[Intent]:
    """Everything that was ever begun for this caller in this cloud."""
    query = sa.select(*_ROW).where(objects.c.cloud == cloud, objects.c.director == director)
    return [Intent(*row) for row in tx.execute(query)]


def members(tx: Tx, group_cid: str) -> int:
    """VMs made for this group that may be in the cloud."""
    query = sa.select(sa.func.count()).select_from(objects)
    mine = objects.c.server_group == group_cid, objects.c.kind == "vm", objects.c.state.in_(OPEN)
    return tx.execute(query.where(*mine)).scalar_one()


def _move(tx: Tx, intent: str, **values: Any) -> None:
    tx.execute(objects.update().where(objects.c.intent == intent).values(**values))
