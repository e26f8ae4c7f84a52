"""Single-writer domains: which process may write one now, and the changes that wait for it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.store import Tx, insert_or_leave, now
from coterie.ledger.tables import changes, domains


def submit(tx: Tx, domain: str, body: dict[str, Any], cloud: str | None = None) -> int:
    """Add a change that waits for the writer of the domain. `cloud`: the one that it is for."""
    present = sa.select(domains.c.domain).where(domains.c.domain == domain)
    if tx.execute(present).first() is None:
        insert_or_leave(tx, domains, {"domain": domain, "cloud": cloud})
        if tx.execute(present).first() is None:
            raise Conflict(
                f"conductors of another site write {domain}",
                why="clouds of two sites share it, and each database role sees its own site only",
                remedy="give one role the conductor groups of both: coterie conductors role ROLE --group A --group B",
            )
    made = changes.insert().values(domain=domain, body=body, state="waiting", created_at=now(), cloud=cloud)
    change: int = tx.execute(made.returning(changes.c.id)).scalar_one()
    return change


def outcome(tx: Tx, change: int) -> dict[str, Any] | None:
    """The driver's answer, or None while the change waits."""
    query = sa.select(changes.c.outcome).where(changes.c.id == change, changes.c.state != "waiting")
    return tx.execute(query).scalar()


def take(tx: Tx, domain: str, holder: str, lease_s: float, cloud: str | None = None) -> int | None:
    """Become the writer of a domain whose last lease has ended; the epoch, or None while another writes."""
    free = sa.or_(domains.c.holder.is_(None), domains.c.expires < now())
    taken = (
        domains.update()
        .where(domains.c.domain == domain, free)
        .values(holder=holder, epoch=domains.c.epoch + 1, expires=now() + lease_s, cloud=cloud)
        .returning(domains.c.epoch)
    )
    return tx.execute(taken).scalar()


def renew(tx: Tx, domain: str, holder: str, epoch: int, lease_s: float) -> bool:
    """A whole lease from now on; False when the domain is another's by now."""
    mine = sa.and_(domains.c.domain == domain, domains.c.holder == holder, domains.c.epoch == epoch)
    return tx.execute(domains.update().where(mine).values(expires=now() + lease_s)).rowcount > 0


def waiting(
    tx: Tx, domain: str, patience_s: float, cloud: str | None = None
) -> list[tuple[int, dict[str, Any], float]]:
    """The changes to make, oldest first, each with the seconds since it was submitted; those older than `patience_s`
    are dropped: their submitters have given up.

    Changes of another cloud are left to it, also where clouds share the domain: the credentials of one site never do
    what another site's conductor wrote.
    """
    stale = changes.delete().where(changes.c.domain == domain, changes.c.created_at < now() - patience_s)
    tx.execute(stale)
    query = (
        sa.select(changes.c.id, changes.c.body, (now() - changes.c.created_at).label("age"))
        .where(changes.c.domain == domain, changes.c.state == "waiting")
        .where(sa.or_(changes.c.cloud.is_(None), changes.c.cloud == cloud))
        .order_by(changes.c.id)
        .limit(500)
    )
    return [(row.id, row.body, row.age) for row in tx.execute(query)]


def acknowledge(tx: Tx, domain: str, holder: str, epoch: int, outcomes: list[tuple[int, dict[str, Any]]]) -> bool:
    """Record the answers and give the domain back; False, and nothing recorded, when it is another's by now."""
    mine = (
        domains.update()
        .where(domains.c.domain == domain, domains.c.holder == holder, domains.c.epoch == epoch)
        .values(holder=None)
    )
    if tx.execute(mine).rowcount == 0:
        return False
    for change, answer in outcomes:
        state = "applied" if answer.get("ok") else "failed"
        tx.execute(changes.update().where(changes.c.id == change).values(state=state, outcome=answer))
    return True


def withdraw(tx: Tx, change: int) -> None:
    """Forget a change, answered or given up by its waiter."""
    tx.execute(changes.delete().where(changes.c.id == change))
