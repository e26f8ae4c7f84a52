"""Facts: answers of clouds about themselves, dated. A question is a row too, answered by a conductor of the site."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from coterie.ledger.rows import clouds, director_keys
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Tx, insert_into, now, signer_of
from coterie.ledger.tables import facts
from coterie.ledger.work.share import Share

_OLD_S = 86400.0


@dataclass(frozen=True, slots=True)
class Fact:
    cloud: str
    what: str
    at: float
    data: Any
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """`properties` None: those of the configured cloud."""

    cloud: str
    what: str
    question: Any
    driver: str
    properties: dict[str, Any] | None
    conductor_group: str
    wanted_at: float
    signature: dict[str, Any] | None = None


def want(tx: Tx, cloud: CloudRow, what: str, question: Any) -> float:
    """Ask for a fresh answer; the moment of asking, which the answer's date must reach."""
    at: float = tx.execute(sa.select(now())).scalar_one()
    present = clouds.get(tx, cloud.name)
    # A question may name another conductor group; the properties are the configured ones all the same.
    known = present is not None and replace(present, conductor_group=cloud.conductor_group) == cloud
    asked = {
        "question": question,
        "wanted_at": at,
        "driver": cloud.driver,
        "conductor_group": cloud.conductor_group,
        "properties": None if known else cloud.properties,
    }
    signer = signer_of(tx)
    row = {"cloud": cloud.name, "what": what, **asked}
    asked["signature"] = director_keys.sign_question(signer, row) if signer else None
    # The clock is read before the row is locked: of two that ask the same, the last one to write may have asked first.
    new = insert_into(tx, facts).values(cloud=cloud.name, what=what, **asked)
    is_newest = sa.or_(facts.c.wanted_at.is_(None), facts.c.wanted_at <= at, facts.c.wanted_at > now())
    tx.execute(new.on_conflict_do_update(index_elements=["cloud", "what"], set_=asked, where=is_newest))
    _forget_old(tx, cloud.name, what)
    return at


def _forget_old(tx: Tx, cloud: str, what: str) -> None:
    """Drop old questions about earlier configurations: properties that are sealed anew give a question a new name."""
    alike = facts.c.what.startswith(what.partition(":")[0] + ":", autoescape=True)
    old = sa.and_(facts.c.what != what, facts.c.wanted_at < now() - _OLD_S)
    tx.execute(facts.delete().where(facts.c.cloud == cloud, alike, old))


def claim(tx: Tx, holder: str, lease_s: float, share: Share, *, besides: Iterable[str] = ()) -> Wanted | None:
    """Take the oldest unanswered question that the ring gives to this conductor, about no cloud of `besides`.

    Read without a lock: a conductor that locked questions of others would hide them from their owners.
    """
    waiting = sa.select(facts.c.cloud, facts.c.what, facts.c.conductor_group, facts.c.driver)
    open_now = waiting.where(_OPEN, share.reach(facts), facts.c.cloud.not_in(sorted(besides)))
    for row in tx.execute(open_now.order_by(facts.c.wanted_at)).all():
        if share.whole or share.holds(row.conductor_group, row.driver, row.cloud):
            wanted = _take(tx, holder, lease_s, row.cloud, row.what)
            if wanted is not None:
                return wanted
    return None


def _take(tx: Tx, holder: str, lease_s: float, cloud: str, what: str) -> Wanted | None:
    """None if another conductor took the question after we read it, as can happen while the ring changes."""
    take = (
        facts.update()
        .where(facts.c.cloud == cloud, facts.c.what == what, _OPEN)
        .values(holder=holder, held_until=now() + lease_s)
        .returning(*(facts.c[name] for name in Wanted.__slots__))
    )
    row = tx.execute(take).first()
    return Wanted(*row) if row else None


def answer(tx: Tx, holder: str, wanted: Wanted, asked_at: float, data: Any, error: dict[str, Any] | None) -> None:
    """`asked_at`: the database's time before the cloud was called, so that no answer looks fresher than it is."""
    # If the question was repeated after we began, keep `properties` for its next answer.
    kept = sa.case((facts.c.wanted_at > asked_at, facts.c.properties), else_=sa.null())
    tx.execute(
        facts.update()
        .where(facts.c.cloud == wanted.cloud, facts.c.what == wanted.what, facts.c.holder == holder)
        .values(at=asked_at, data=data, error=error, holder=None, held_until=None, properties=kept)
    )


def give_back(tx: Tx, holder: str, wanted: Wanted) -> None:
    """A question that its holder cannot answer now is open again."""
    held = facts.update().where(facts.c.cloud == wanted.cloud, facts.c.what == wanted.what, facts.c.holder == holder)
    tx.execute(held.values(holder=None, held_until=None))


def release(tx: Tx, holders: Iterable[str]) -> None:
    """The questions that these conductors took and will not answer are open again."""
    held = facts.update().where(facts.c.holder.in_(sorted(holders)))
    tx.execute(held.values(holder=None, held_until=None))


def find_answer(tx: Tx, cloud: str, what: str, since: float) -> Fact | None:
    """One that is not older. Older ones are not read: those about thousands of VMs take long, and this is repeated
    until the new one is there."""
    query = sa.select(facts.c.cloud, facts.c.what, facts.c.at, facts.c.data, facts.c.error)
    row = tx.execute(query.where(facts.c.cloud == cloud, facts.c.what == what, facts.c.at >= since)).first()
    return Fact(*row) if row else None


def open_questions(tx: Tx, share: Share) -> bool:
    """Whether any question in our reach is open: a cheap look before a write transaction."""
    return tx.execute(sa.select(facts.c.cloud).where(_OPEN, share.reach(facts)).limit(1)).first() is not None


# A Director's date is of the past. One of the future is forged, and no answer would ever reach it.
_OPEN = sa.and_(
    sa.or_(facts.c.at.is_(None), facts.c.at < facts.c.wanted_at),
    facts.c.wanted_at <= now(),
    sa.or_(facts.c.held_until.is_(None), facts.c.held_until < now()),
)
