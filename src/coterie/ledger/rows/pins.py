"""Pins: the account that each cloud was found to be while it held objects of ours."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from coterie.errors import Refused
from coterie.ledger.rows import enrolled, objects
from coterie.ledger.store import Tx, insert_into, insert_or_update, now
from coterie.ledger.tables import cloud_pins


class CloudMoved(Refused):
    """The cloud is another account than the one that our objects are in."""

    code = "cloud_moved"


def get(tx: Tx, cloud: str) -> str | None:
    return tx.execute(sa.select(cloud_pins.c.identity).where(cloud_pins.c.cloud == cloud)).scalar()


def all_pins(tx: Tx) -> dict[str, str | None]:
    return dict(tx.execute(sa.select(cloud_pins.c.cloud, cloud_pins.c.identity)).all())


def forget_unused(tx: Tx) -> None:
    """A cloud without objects may become any other one."""
    used = [cloud for cloud in all_pins(tx) if holds_objects(tx, cloud)]
    tx.execute(cloud_pins.delete().where(cloud_pins.c.cloud.not_in(used)))


def holds_objects(tx: Tx, cloud: str) -> bool:
    """Whether anything of ours, or an enrolled node, is or may be in it."""
    return cloud in objects.clouds_in_use(tx) or cloud in enrolled.clouds_of(tx)


def conflict(tx: Tx, cloud: str, identity: str | None) -> CloudMoved | None:
    """The error that stops all work in this cloud if it is not the one that our objects are in."""
    pinned = get(tx, cloud)
    if identity is None or pinned is None or pinned == identity or not holds_objects(tx, cloud):
        return None
    return CloudMoved(
        f"cloud {cloud} is another one now",
        why=f"what the ledger has in it is in {pinned}, and its properties lead to {identity}",
        remedy="set the former properties again: coterie clouds set FILE; or, if everything was moved there and kept "
        f"its ids: coterie clouds repin {cloud} {identity!r}",
        details={"cloud": cloud, "pinned": pinned, "found": identity},
    )


def pin(tx: Tx, cloud: str, identity: str) -> None:
    insert_or_update(tx, cloud_pins, {"cloud": cloud}, {"identity": identity, "pinned_at": now()})


def pin_first(tx: Tx, cloud: str, identity: str) -> None:
    """Unless it has a pin: two processes may come here at once, and the first one counts."""
    new = insert_into(tx, cloud_pins).values(cloud=cloud, identity=identity, pinned_at=now())
    unset = cloud_pins.c.identity.is_(None)
    values = {"identity": identity, "pinned_at": now()}
    tx.execute(new.on_conflict_do_update(index_elements=["cloud"], set_=values, where=unset))


class Token(NamedTuple):
    """What this ledger has left in the cloud. `known`: the last token, and the one that was intended after it."""

    known: tuple[str | None, ...]
    at: float


def read_token(tx: Tx, cloud: str) -> Token | None:
    columns = (cloud_pins.c.token, cloud_pins.c.next_token, cloud_pins.c.token_at)
    row = tx.execute(sa.select(*columns).where(cloud_pins.c.cloud == cloud)).first()
    return Token((row.token, row.next_token), row.token_at) if row and row.next_token else None


def intend_token(tx: Tx, cloud: str, token: str) -> None:
    """To be committed before it is written into the cloud; the one before stays known."""
    new = insert_into(tx, cloud_pins).values(cloud=cloud, next_token=token, token_at=now(), pinned_at=now())
    values = {"token": cloud_pins.c.next_token, "next_token": token, "token_at": now()}
    tx.execute(new.on_conflict_do_update(index_elements=["cloud"], set_=values))
