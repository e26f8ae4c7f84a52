"""Deletes with a record: the wish is noted before the cloud is called, so that a died call is finished by cleanup."""

from __future__ import annotations

from collections.abc import Callable

from coterie.bosh.core.call_context import Desk
from coterie.cpi.contract import (
    CpiError,
    DiskNotFound,
    Kind,
    NetworkNotFound,
    OutcomeUnknown,
    StemcellNotFound,
    VMNotFound,
)
from coterie.ledger.rows import objects, registry
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.writes import execute

_GONE = (VMNotFound, DiskNotFound, StemcellNotFound, NetworkNotFound)


def remove(desk: Desk, kind: Kind, cid: str, call: Callable[[], None]) -> None:
    """Delete what has this cid. What the ledger does not know was made by others: it is deleted all the same."""
    ledger = desk.book.ledger
    with ledger.write() as tx:
        row = objects.by_cid(tx, kind, desk.cloud, desk.director, cid)
        if row:
            execute(tx, objects.begin_delete(row.intent, cid))
    try:
        call()
    except _GONE:
        _ended(desk, kind, cid, row)
        raise
    except OutcomeUnknown:
        raise
    except CpiError:
        if row:
            with ledger.write() as tx:
                execute(tx, objects.end_delete(row.intent, "live"))
        raise
    _ended(desk, kind, cid, row)


def replaced(desk: Desk, cid: str, successor: str) -> None:
    """The cloud had to make another disk of it; it goes on under the same intent."""
    with desk.book.ledger.write() as tx:
        row = objects.by_cid(tx, "disk", desk.cloud, desk.director, cid)
        if row:
            execute(tx, objects.record_created(row.intent, successor))


def _ended(desk: Desk, kind: Kind, cid: str, row: ObjectRow | None) -> None:
    with desk.book.ledger.write() as tx:
        if row:
            execute(tx, objects.record_gone(row.intent))
        if kind == "vm" and desk.config.registry:
            registry.delete(tx, instance_of(desk, row) if row else cid)


def instance_of(desk: Desk, row: ObjectRow) -> str:
    """The name under which an agent asks the registry: known before the VM has a cid."""
    return desk.mark(row.intent).name()
