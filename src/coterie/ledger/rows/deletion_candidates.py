"""Deletion candidates: since when each object has been seen unused, by the database's clock, not the cloud's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import suspects
from coterie.ledger.writes import NOW, Write, delete, insert, update


@dataclass(frozen=True, slots=True)
class DeletionCandidate:
    """An object that was seen unused: `since` when, by the database's clock; `doomed`: its undo window has begun."""

    cid: str
    created_at: float | None
    since: float
    doomed: bool
    pinned: bool
    intent: str | None = None


_ROW = tuple(suspects.c[name] for name in DeletionCandidate.__slots__)


def of_page(tx: Tx, cloud: str, kind: str, cids: Sequence[str]) -> dict[str, DeletionCandidate]:
    query = sa.select(*_ROW).where(suspects.c.cloud == cloud, suspects.c.kind == kind, suspects.c.cid.in_(cids))
    return {row.cid: DeletionCandidate(*row) for row in tx.execute(query)}


def list_of_kind(tx: Tx, cloud: str, kind: str) -> list[DeletionCandidate]:
    query = sa.select(*_ROW).where(suspects.c.cloud == cloud, suspects.c.kind == kind)
    return [DeletionCandidate(*row) for row in tx.execute(query)]


def get(tx: Tx, cloud: str, kind: str, cid: str) -> DeletionCandidate | None:
    return of_page(tx, cloud, kind, [cid]).get(cid)


def list_all(tx: Tx) -> list[dict[str, Any]]:
    query = sa.select(suspects).order_by(suspects.c.since, suspects.c.cloud, suspects.c.kind, suspects.c.cid)
    return [dict(row._mapping) for row in tx.execute(query)]


def add(cloud: str, kind: str, cid: str, *, intent: str, created_at: float | None, cleanup: int) -> Write:
    """The first time that it is seen unused."""
    values = {"intent": intent, "created_at": created_at, "since": NOW, "cleanup": cleanup}
    return insert("suspects", cloud=cloud, kind=kind, cid=cid, **values)


def restart(cloud: str, kind: str, cid: str, *, created_at: float | None, cleanup: int) -> Write:
    """The same id, but another object: its time begins anew."""
    return update("suspects", _key(cloud, kind, cid), since=NOW, created_at=created_at, doomed=False, cleanup=cleanup)


def confirm(cloud: str, kind: str, cid: str, cleanup: int) -> Write:
    """This run found it unused again."""
    return update("suspects", _key(cloud, kind, cid), cleanup=cleanup)


def begin_undo_window(cloud: str, kind: str, cid: str) -> Write:
    return update("suspects", _key(cloud, kind, cid), doomed=True, since=NOW)


def remove(cloud: str, kind: str, cid: str) -> Write:
    return delete("suspects", _key(cloud, kind, cid))


def list_outdated(tx: Tx, cloud: str, kind: str, cleanup: int) -> list[str]:
    """CIDs that the survey of this run did not find unused again."""
    query = sa.select(suspects.c.cid).where(
        suspects.c.cloud == cloud, suspects.c.kind == kind, suspects.c.cleanup != cleanup
    )
    return list(tx.execute(query).scalars())


def shift_all(tx: Tx, seconds: float) -> None:
    """The database's clock has jumped: what was seen unused before was seen so much later by the clock of now."""
    tx.execute(suspects.update().where(suspects.c.since > 0).values(since=suspects.c.since + seconds))


def pin(tx: Tx, cloud: str, kind: str, cid: str, *, intent: str) -> None:
    """No cleanup deletes it any more."""
    here = [suspects.c[name] == value for name, value in _key(cloud, kind, cid).items()]
    if tx.execute(suspects.update().where(*here).values(pinned=True)).rowcount == 0:
        values = {"intent": intent, "since": 0.0, "pinned": True, "cleanup": 0}
        tx.execute(suspects.insert().values(**_key(cloud, kind, cid), **values))


def _key(cloud: str, kind: str, cid: str) -> dict[str, str]:
    return {"cloud": cloud, "kind": kind, "cid": cid}
