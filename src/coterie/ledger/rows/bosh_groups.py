"""Which group stands for an env.bosh.group: the unique row decides which of many processes creates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.ledger.statements import run
from coterie.slotted import dataclass

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx


@dataclass(frozen=True, slots=True)
class Key:
    cloud: str
    director: str
    name: str


@dataclass(frozen=True, slots=True)
class BoshGroup:
    cloud: str
    director: str
    name: str
    intent: str
    cid: str | None
    state: str
    holder: str

    @property
    def key(self) -> Key:
        return Key(self.cloud, self.director, self.name)


_SELECT = f"SELECT {', '.join(BoshGroup.__slots__)} FROM bosh_groups WHERE"
_CALLER = "cloud = :cloud AND director = :director"
_KEY = f"{_CALLER} AND name = :name"
_HELD = f"{_KEY} AND holder = :holder AND state != 'live'"


def claim(tx: Tx, key: Key, intent: str, holder: str, lease_s: float) -> BoshGroup:
    """The row as it is now. If it has this `holder`, this process does the work that its state names.

    That is so if there was no row (then it is new, with `intent`), or if the lease of its holder had ended.
    """
    text = (
        "INSERT INTO bosh_groups (cloud, director, name, intent, state, holder, expires)"
        " VALUES (:cloud, :director, :name, :intent, 'intended', :holder, {now} + :lease_s)"
        " ON CONFLICT (cloud, director, name) DO UPDATE SET holder = :holder, expires = {now} + :lease_s"
        " WHERE bosh_groups.state != 'live' AND bosh_groups.expires < {now}"
    )
    run(tx, text, intent=intent, holder=holder, lease_s=lease_s, **_words(key))
    return BoshGroup(*run(tx, f"{_SELECT} {_KEY}", **_words(key)).fetchone())


def find_settled(tx: Tx, key: Key) -> BoshGroup | None:
    """The row, if `claim` would leave it as it is: the group is live, or its holder's lease has not ended."""
    text = f"{_SELECT} {_KEY} AND (state = 'live' OR expires >= {{now}})"
    row = run(tx, text, **_words(key)).fetchone()
    return BoshGroup(*row) if row else None


def of_caller(tx: Tx, cloud: str, director: str) -> list[BoshGroup]:
    rows = run(tx, f"{_SELECT} {_CALLER} ORDER BY name", cloud=cloud, director=director)
    return [BoshGroup(*row) for row in rows.fetchall()]


def busy(tx: Tx, cloud: str, director: str) -> frozenset[str]:
    """Intents of groups that a process with a valid lease creates now."""
    text = f"SELECT intent FROM bosh_groups WHERE {_CALLER} AND state = 'intended' AND expires >= {{now}}"
    return frozenset(intent for (intent,) in run(tx, text, cloud=cloud, director=director).fetchall())


def is_live(tx: Tx, key: Key, cid: str) -> bool:
    # The row lock keeps a cleanup on PostgreSQL from removing the group before our member is recorded.
    text = f"SELECT name FROM bosh_groups WHERE {_KEY} AND cid = :cid AND state = 'live' {{for_update}}"
    return run(tx, text, cid=cid, **_words(key)).fetchone() is not None


def renew(tx: Tx, key: Key, holder: str, lease_s: float) -> None:
    text = f"UPDATE bosh_groups SET expires = {{now}} + :lease_s WHERE {_HELD}"
    run(tx, text, lease_s=lease_s, holder=holder, **_words(key))


def record_live(tx: Tx, key: Key, holder: str, cid: str) -> bool:
    """False when another process took over meanwhile: that one records it."""
    text = f"UPDATE bosh_groups SET state = 'live', cid = :cid WHERE {_HELD}"
    return bool(run(tx, text, cid=cid, holder=holder, **_words(key)).rowcount == 1)


def end_lease(tx: Tx, key: Key, holder: str) -> None:
    """The next process takes over at once."""
    run(tx, f"UPDATE bosh_groups SET expires = 0.0 WHERE {_HELD}", holder=holder, **_words(key))


def begin_delete(tx: Tx, key: Key, holder: str, lease_s: float) -> bool:
    """From now on no machine may join it. The caller counts its members after this, in the same transaction."""
    text = (
        "UPDATE bosh_groups SET state = 'deleting', holder = :holder, expires = {now} + :lease_s"
        f" WHERE {_KEY} AND (state = 'live' OR expires < {{now}})"
    )
    return bool(run(tx, text, holder=holder, lease_s=lease_s, **_words(key)).rowcount == 1)


def restore(tx: Tx, key: Key, holder: str) -> None:
    """It is not deleted after all."""
    text = f"UPDATE bosh_groups SET state = 'live' WHERE {_HELD} AND state = 'deleting'"
    run(tx, text, holder=holder, **_words(key))


def forget(tx: Tx, key: Key, holder: str) -> bool:
    """The group is gone, or was never made; the next machine begins a new one."""
    return bool(run(tx, f"DELETE FROM bosh_groups WHERE {_HELD}", holder=holder, **_words(key)).rowcount == 1)


def _words(key: Key) -> dict[str, Any]:
    return {"cloud": key.cloud, "director": key.director, "name": key.name}
