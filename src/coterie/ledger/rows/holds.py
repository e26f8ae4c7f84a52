"""Leases between deletions and creations: which task is about to use a thing, and which is about to remove it.

Both sides lock the same row, so that exactly one of them sees the other. A hold counts as long as the task that took
it has not ended, and for no longer than its lease.
"""

from __future__ import annotations

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.store import Tx, insert_or_leave, now
from coterie.ledger.tables import domains, tasks

STEMCELLS = "stemcells"  # of all clouds: any deployment may be about to use one
_UNFINISHED = ("running", "cancelling")


def of_deployment(name: str) -> str:
    return f"deployment {name}"


def take(tx: Tx, name: str, task: int, lease_s: float) -> int | None:
    """Hold it for the deletions of `task`; the other task that is at work there, or None when it is ours."""
    domain = f"hold:{name}"
    insert_or_leave(tx, domains, {"domain": domain})
    held = domains.update().where(domains.c.domain == domain)
    tx.execute(held.values(holder=str(task), epoch=domains.c.epoch + 1, expires=now() + lease_s))
    busy = _at_work(tx, name)
    if busy is not None:
        tx.execute(held.values(holder=None))
    return busy


def refuse_held(tx: Tx, name: str) -> None:
    """Raise Conflict while a cleanup holds it. To be called in the transaction that is going to use it."""
    domain = f"hold:{name}"
    insert_or_leave(tx, domains, {"domain": domain})
    held = domains.c.holder.is_not(None) & (domains.c.expires >= now())
    query = sa.select(domains.c.holder, held).where(domains.c.domain == domain).with_for_update()
    holder, fresh = tx.execute(query).one()
    if fresh and _is_sweeping(tx, holder):
        raise Conflict(
            f"{name}: a cleanup is deleting something of it at this moment",
            why=f"task {holder} holds it",
            remedy=f"repeat when it is over: coterie tasks watch {holder}",
            retryable=True,
            details={"task_id": int(holder)},
        )


def pace(tx: Tx, cloud: str, every_s: float) -> float:
    """Reserve the next moment for a deletion in this cloud; how many seconds from now it is."""
    domain = f"pace:{cloud}"
    insert_or_leave(tx, domains, {"domain": domain, "cloud": cloud})
    query = sa.select(now(), domains.c.expires).where(domains.c.domain == domain).with_for_update()
    at, free = tx.execute(query).one()
    mine: float = max(at, free or at)
    tx.execute(domains.update().where(domains.c.domain == domain).values(expires=mine + every_s, cloud=cloud))
    return mine - float(at)


def _at_work(tx: Tx, name: str) -> int | None:
    query = sa.select(sa.func.max(tasks.c.id)).where(tasks.c.state.in_(_UNFINISHED))
    if name == STEMCELLS:
        return tx.execute(query.where(tasks.c.deployment.is_not(None))).scalar()
    return tx.execute(query.where(tasks.c.deployment == name.partition(" ")[2])).scalar()


def _is_sweeping(tx: Tx, holder: str) -> bool:
    """A conductor's role can write anything as the holder."""
    query = sa.select(tasks.c.id).where(tasks.c.kind == "sweep", tasks.c.state.in_(_UNFINISHED))
    return holder in map(str, tx.execute(query).scalars())
