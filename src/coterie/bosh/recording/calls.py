"""Creates and deletes with a record: the intent is written before the call, the outcome after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from coterie.bosh.core.call_context import CallContext
from coterie.cpi.contract import (
    CpiError,
    DiskNotFound,
    Kind,
    Mark,
    NetworkCreated,
    NetworkNotFound,
    OutcomeUnknown,
    StemcellNotFound,
    Throttled,
    Unavailable,
    VmCreated,
    VMNotFound,
)
from coterie.ledger.rows import object_life as objects
from coterie.ledger.rows import registry
from coterie.ledger.rows.object_life import ObjectRow
from coterie.ledger.work import leases
from coterie.ledger.writes import execute

T = TypeVar("T")
_LOOK_S = 0.5


def create_recorded(context: CallContext, kind: Kind, mark: Mark, call: Callable[[], T]) -> T:
    """Create one object under this mark; any kind but a VM."""
    key = context.claim_key(kind, mark.intent)
    with context.ledger.write() as tx:
        leases.take(tx, key, context.holder, context.lease_s)
        notes = {objects.UNDELIVERED: True}
        execute(tx, objects.intend(mark.intent, kind, context.cloud, director=context.director, properties=notes))
    with context.keep_claim(key):
        made = call_create(context, kind, mark, call)
        with context.ledger.write() as tx:
            execute(tx, objects.record_created(mark.intent, cid_of(made)))
    return made


def call_create(context: CallContext, kind: Kind, mark: Mark, call: Callable[[], T]) -> T:
    """Make the call and return what the cloud created. After an error the row says whether anything can be there."""
    try:
        return call()
    except OutcomeUnknown as unknown:
        if kind in context.driver.capabilities().client_tokens:
            return _repeat(context, mark, call, unknown)
        if not settle(context, kind, mark):
            raise _nothing_created(unknown) from unknown
        # It is there, so by contract the same call returns it and creates no second one.
        return call()
    except CpiError:
        with context.ledger.write() as tx:
            execute(tx, objects.record_gone(mark.intent))
        raise
    except BaseException:
        with context.ledger.write() as tx:
            execute(tx, objects.record_unknown(mark.intent))
        raise


def _repeat(context: CallContext, mark: Mark, call: Callable[[], T], unknown: OutcomeUnknown) -> T:
    """For a cloud that takes a token with the call: the same call, until it is answered. Only where that takes longer
    than the cloud needs to settle is the outcome left unknown, to be removed by cleanup. A repeat that the cloud did
    not take says nothing about the first call."""
    with context.ledger.write() as tx:
        execute(tx, objects.record_unknown(mark.intent))
    give_up = time.monotonic() + context.driver.capabilities().settle_s
    while True:
        try:
            return call()
        except (OutcomeUnknown, Throttled, Unavailable) as error:
            if time.monotonic() >= give_up:
                raise unknown from error
            time.sleep(_LOOK_S)
        except CpiError:
            with context.ledger.write() as tx:
                execute(tx, objects.record_gone(mark.intent))
            raise


def settle(context: CallContext, kind: Kind, mark: Mark, since: float | None = None) -> bool:
    """Find out, within the cloud's settle time, whether an object with this mark is there; if not, leave a tombstone.

    `since`: when the answer was lost, if that was recorded before.
    """
    with context.ledger.write() as tx:
        execute(tx, objects.record_unknown(mark.intent, since))
    capabilities = context.driver.capabilities()
    if not capabilities.finds:
        raise OutcomeUnknown(
            f"whether the {kind} was made is unknown",
            why=f"the answer was lost, and this cloud cannot be asked: {capabilities.unsupported['find'].why}",
            remedy=f"look in the cloud for {mark.name()}",
            retryable=False,
        )
    give_up = time.monotonic() + capabilities.settle_s
    while context.driver.find(kind, mark) is None:
        if time.monotonic() >= give_up:
            with context.ledger.write() as tx:
                execute(tx, objects.record_gone(mark.intent, tombstone=True))
            return False
        time.sleep(min(_LOOK_S, capabilities.settle_s / 4))
    return True


def cid_of(made: object) -> str:
    return made.cid if isinstance(made, VmCreated | NetworkCreated) else str(made)


def _nothing_created(unknown: OutcomeUnknown) -> CpiError:
    return CpiError(
        unknown.what,
        why=f"{unknown.why or 'the answer was lost'}; nothing with its mark turned up within the settle time",
        remedy="repeat; should it turn up later, `coterie-cpi cleanup` removes it",
        retryable=True,
    )


def record_delivered(context: CallContext) -> None:
    with context.ledger.write() as tx:
        rows = [objects.by_cid(tx, kind, context.cloud, context.director, cid) for kind, cid in context.created]
        execute(tx, *[objects.record_delivered(row) for row in rows if row and row.is_undelivered])


_GONE = (VMNotFound, DiskNotFound, StemcellNotFound, NetworkNotFound)


def delete_recorded(context: CallContext, kind: Kind, cid: str, call: Callable[[], None]) -> None:
    """Delete what has this cid, also if the ledger has no row of it: then another program created it. Refused if the
    ledger has a row of another Director only."""
    ledger = context.ledger
    with ledger.write() as tx:
        rows = objects.all_by_cid(tx, kind, context.cloud, cid)
        row = next((one for one in rows if one.director == context.director), None)
        if rows and row is None:
            raise _not_own(kind, cid, rows[0])
        if row:
            execute(tx, objects.begin_delete(row.intent, cid))
    try:
        call()
    except _GONE:
        _record_gone(context, kind, cid, row)
        raise
    except OutcomeUnknown:
        raise
    except CpiError:
        if row:
            with ledger.write() as tx:
                execute(tx, objects.end_delete(row.intent, "live"))
        raise
    _record_gone(context, kind, cid, row)


def _not_own(kind: Kind, cid: str, row: ObjectRow) -> CpiError:
    return CpiError(
        f"{kind} {cid} belongs to another Director",
        why=f"the ledger says that Director {row.director or 'Coterie'} created it; nothing was deleted",
        remedy="delete it through the Director that created it",
    )


def record_replacement(context: CallContext, cid: str, successor: str) -> None:
    """The cloud replaced a disk by another one, which goes on under the same intent."""
    with context.ledger.write() as tx:
        row = objects.by_cid(tx, "disk", context.cloud, context.director, cid)
        if row:
            execute(tx, objects.record_created(row.intent, successor))


def _record_gone(context: CallContext, kind: Kind, cid: str, row: ObjectRow | None) -> None:
    with context.ledger.write() as tx:
        if row:
            execute(tx, objects.record_gone(row.intent))
        if kind == "vm" and context.config.registry:
            registry.delete(tx, _registry_name(context, row) if row else cid)


def _registry_name(context: CallContext, row: ObjectRow) -> str:
    """The name under which an agent reads the registry: known before the VM has a cid."""
    return context.mark(row.intent).name()
