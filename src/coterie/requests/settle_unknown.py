"""An object that may or may not be in its cloud: what a person found is checked and recorded."""

from __future__ import annotations

from coterie.errors import Conflict, NotFound
from coterie.ledger import writes
from coterie.ledger.rows import clouds, enrolled, identity, objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.store import Ledger, Tx
from coterie.requests.ask_clouds import ask


def settle(ledger: Ledger, intent: str, cid: str | None) -> None:
    """A person has looked: the object is there as `cid`, or (None) it is not. Where the cloud can be asked, it is."""
    if cid is not None:
        _refuse_unmarked(ledger, intent, cid)
    with ledger.write() as tx:
        row = objects.get(tx, intent)
        if row is None:
            raise NotFound(f"the ledger has no object {intent}", remedy="see `coterie nodes show NODE`")
        if row.state not in ("unknown", "intended"):
            raise Conflict(f"object {intent} is {row.state}, so there is nothing to settle")
        if cid is not None:
            _refuse_used(tx, row, cid)
        change = objects.record_gone(intent, tombstone=True) if cid is None else objects.record_created(intent, cid)
        writes.execute(tx, change)


def _refuse_unmarked(ledger: Ledger, intent: str, cid: str) -> None:
    with ledger.read() as tx:
        row = objects.get(tx, intent)
        cloud = clouds.get(tx, row.cloud) if row else None
        director = identity.director(tx).uuid
    if row is None or cloud is None or row.state not in ("unknown", "intended"):
        return
    (found,) = ask(ledger, [(cloud, "marked", {"kind": row.kind, "director": director, "intent": intent})])
    if found["able"] and found["cid"] != cid:
        shown = f"{row.kind} {found['cid']}" if found["cid"] else f"no {row.kind}"
        raise Conflict(
            f"{row.kind} {cid} does not carry the mark {intent}",
            why=f"under that mark the cloud shows {shown}",
            remedy="give the id that the cloud shows; without one, say that it is gone",
        )


def _refuse_used(tx: Tx, row: ObjectRow, cid: str) -> None:
    """What is settled is deleted one day: it must not belong to another node or object."""
    user = enrolled.user_of(tx, row.cloud, cid) if row.kind == "vm" else objects.holder_of(tx, row.cloud, row.kind, cid)
    if user is not None:
        raise Conflict(
            f"{row.kind} {cid} of cloud {row.cloud} belongs to {user}",
            remedy="give the id of the object that carries the mark of this intent",
        )
