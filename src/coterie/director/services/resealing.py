"""Rotation of keys: a conductor, who alone can open them, seals the properties of a cloud anew to its newest key."""

from __future__ import annotations

from coterie.director.access import caller
from coterie.director.context import Office
from coterie.errors import Conflict, NotFound, Refused, UsageError
from coterie.ledger.rows import clouds, keys
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Tx
from coterie.requests.ask_clouds import ask
from coterie.ring.members import group_name
from coterie.seal.key import PublicKey
from coterie.seal.sealed import address

_PATIENCE_S = 30.0


def publish(office: Office, group: str, public: str) -> PublicKey:
    """From now on the credentials of this group's clouds are sealed to this key."""
    key = PublicKey.read(public)
    with office.ledger.write() as tx:
        keys.publish(tx, _group(group), key.id, key.text, caller.present().name)
    return key


def retire(office: Office, group: str, key_id: str) -> None:
    """Refused while something is sealed to it."""
    with office.ledger.write() as tx:
        held = [name for name, row in clouds.all_clouds(tx).items() if _key_id(row) == key_id]
        if held:
            raise Refused(
                f"key {key_id} is still needed",
                why=f"the properties of {', '.join(held)} are sealed to it",
                remedy="seal them anew first: coterie clouds reseal",
            )
        if not keys.retire(tx, _group(group), key_id):
            raise NotFound(f"group {group!r} has no key {key_id}", remedy="see `coterie conductors keys`")


def reseal(office: Office, name: str) -> str:
    """Have a conductor seal them to its newest key; the id of that key."""
    with office.ledger.read() as tx:
        row = clouds.get(tx, name)
    if row is None:
        raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`")
    if _key_id(row) is None:
        raise UsageError(f"cloud {name} has no sealed properties", remedy="there is nothing to seal anew")
    answered: dict[str, str] = ask(office.ledger, [(row, "reseal", {})], _PATIENCE_S)[0]
    with office.ledger.write() as tx:
        return _exchange(tx, row, answered)


def _exchange(tx: Tx, row: CloudRow, new: dict[str, str]) -> str:
    to = address(new)
    if to is None or not keys.can_open(tx, row.conductor_group, to.key_id):
        raise Refused(
            f"the conductors of cloud {row.name} sealed to key {to.key_id if to else '-'}, which is not published",
            why="credentials are sealed to published keys only",
            remedy="publish it first, on a conductor: coterie conductors keys publish",
        )
    present, config = clouds.all_clouds(tx), clouds.config(tx)
    old = row.properties["sealed"]
    if present.get(row.name) != row or config is None or old not in config.body:
        raise Conflict(f"cloud {row.name} was changed meanwhile", remedy="try again")
    present[row.name] = CloudRow(row.name, row.driver, dict(new), row.conductor_group)
    clouds.set_config(tx, config.body.replace(old, new["sealed"]), present.values())
    return to.key_id


def _key_id(row: CloudRow) -> str | None:
    where = address(row.properties or {})
    return where.key_id if where else None


def _group(name: str) -> str:
    return name if name == keys.EVERY else group_name(name)
