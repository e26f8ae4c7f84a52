"""Seals the properties of clouds to the conductors of their group before they are stored, and rotates the keys.

The Director has no key that opens them: a conductor seals them again when its group has a newer key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from coterie.cpi.load import driver_names, forms_of
from coterie.director.access import caller
from coterie.director.context import AppContext
from coterie.errors import Conflict, NotFound, Refused
from coterie.ledger.rows import clouds, keys, machine_secrets
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Tx
from coterie.ledger.work import conductors
from coterie.requests.ask_clouds import ask
from coterie.ring.members import group_name
from coterie.seal.config import KeyOf, Known, replace_sealed, seal_config
from coterie.seal.key import PublicKey
from coterie.seal.sealed import Purpose, boxes, join, seal

_REMEMBERED = 256


def seal_text(context: AppContext, text: str, file: str) -> str:
    """The cloud config with sealed properties; mistakes are reported with the lines of `text`."""
    key_of, is_known = _keys(context)
    return seal_config(text, file, key_of, is_known, sealer=_SEALER, drivers=driver_names(), forms_of=forms_of)


def _keys(context: AppContext) -> tuple[KeyOf, Known]:
    def key_of(group: str) -> PublicKey | None:
        with context.ledger.read() as tx:
            found = keys.of_group(tx, group)
        return PublicKey.read(found[0].public) if found else None

    def is_known(group: str, key_id: str) -> bool:
        with context.ledger.read() as tx:
            return keys.can_open(tx, group, key_id)

    return key_of, is_known


class _Sealer:
    """Gives the same sealed text for the same properties while the process lives, so that a config that is set again
    is the same config. It keeps a keyed hash of what it sealed, which reveals nothing."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._made: OrderedDict[bytes, dict[str, str]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: PublicKey, purpose: Purpose, properties: dict[str, Any]) -> dict[str, str]:
        what = json.dumps([key.id, purpose.cloud, purpose.driver, purpose.group, properties], sort_keys=True)
        digest = hmac.new(self._secret, what.encode(), hashlib.sha256).digest()
        with self._lock:
            if digest not in self._made:
                self._made[digest] = seal(key, purpose, properties)
            self._made.move_to_end(digest)
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
            return self._made[digest]


_SEALER = _Sealer()


_PATIENCE_S = 30.0
_SECRETS_AT_ONCE = 50


def publish(context: AppContext, group: str, public: str) -> PublicKey:
    """From now on the credentials of this group's clouds are sealed to this key."""
    key = PublicKey.read(public)
    with context.ledger.write() as tx:
        keys.publish(tx, _group(group), key.id, key.text, caller.current().name)
    return key


def retire(context: AppContext, group: str, key_id: str) -> None:
    """Refused while something is sealed to it."""
    with context.ledger.write() as tx:
        held = [name for name, row in clouds.all_clouds(tx).items() if key_id in _key_ids(row)]
        if held:
            raise Refused(
                f"key {key_id} is still needed",
                why=f"the properties of {', '.join(held)} are sealed to it",
                remedy="seal them again first: coterie clouds reseal",
            )
        unsealed = machine_secrets.sealed_to(tx, key_id)
        if unsealed:
            raise Refused(
                f"key {key_id} is still needed",
                why=f"env and user_data of {', '.join(unsealed)} are sealed to it",
                remedy="seal them again first: coterie clouds reseal; where no conductor has the old key any more, "
                "deploy these again",
            )
        if not keys.retire(tx, _group(group), key_id):
            raise NotFound(f"group {group!r} has no key {key_id}", remedy="see `coterie conductors keys`")


@dataclass(frozen=True, slots=True)
class Resealed:
    """The key of each conductor group, for the properties of a cloud; and how many machine secrets of these groups got
    another key."""

    sealed_to: dict[str, str]
    sealed_again: int


def reseal(context: AppContext, name: str) -> Resealed:
    """Have a conductor of each of a cloud's groups seal to its newest key: the properties of the cloud, and the machine
    secrets that are stored for the group."""
    with context.ledger.read() as tx:
        row = clouds.get(tx, name)
        if row is None:
            raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`")
        older = {group: _older_secrets(tx, group) for group in row.groups}
        for group in row.groups:
            if _key_ids(row) or older[group]:
                conductors.living(tx).require(group, row.driver)
    sealed_to = _reseal_properties(context, row) if _key_ids(row) else {}
    return Resealed(sealed_to, sum(_reseal_secrets(context, row, group, names) for group, names in older.items()))


def _reseal_properties(context: AppContext, row: CloudRow) -> dict[str, str]:
    questions = [(replace(row, conductor_group=group), "reseal", {"group": group}) for group in row.groups]
    answered: list[dict[str, str]] = ask(context.ledger, questions, _PATIENCE_S)
    with context.ledger.write() as tx:
        return _exchange(tx, row, dict(zip(row.groups, answered, strict=True)))


def _older_secrets(tx: Tx, group: str) -> list[str]:
    published = keys.of_group(tx, group)
    return machine_secrets.names_with_other_keys(tx, group, published[0].id) if published else []


def _reseal_secrets(context: AppContext, row: CloudRow, group: str, names: list[str]) -> int:
    """How many got another key. A conductor leaves out what it cannot open."""
    count = 0
    for first in range(0, len(names), _SECRETS_AT_ONCE):
        question = {"group": group, "names": names[first : first + _SECRETS_AT_ONCE]}
        to_group = (replace(row, conductor_group=group), "reseal_secrets", question)
        answer = ask(context.ledger, [to_group], _PATIENCE_S)[0]
        with context.ledger.write() as tx:
            _require_published(tx, group, answer["key"], "machine secrets")
            for name, sealed in answer["sealed"].items():
                count += machine_secrets.replace_sealed(tx, name, group, answer["key"], sealed)
    return count


def _require_published(tx: Tx, group: str, key_id: str, what: str) -> None:
    if not keys.can_open(tx, group, key_id):
        raise Refused(
            f"the conductors of group {group!r} sealed {what} to key {key_id}, which is not published",
            why="only published keys are sealed to",
            remedy="publish it first, on a conductor of that group: coterie conductors keys publish",
        )


def _exchange(tx: Tx, row: CloudRow, new: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """`new`: the box of each group."""
    sealed_to = {group: next((where.key_id for where in boxes(box)), "-") for group, box in new.items()}
    for group, key_id in sealed_to.items():
        _require_published(tx, group, key_id, f"cloud {row.name}")
    present, config = clouds.all_clouds(tx), clouds.config(tx)
    if present.get(row.name) != row or config is None:
        raise Conflict(f"cloud {row.name} was changed meanwhile", remedy="try again")
    present[row.name] = replace(row, properties=join(list(new.values())))
    text = replace_sealed(config.body, row.name, present[row.name].properties)
    clouds.set_config(tx, text, present.values())
    return sealed_to


def _key_ids(row: CloudRow) -> list[str]:
    return [where.key_id for where in boxes(row.properties or {})]


def _group(name: str) -> str:
    return name if name == keys.EVERY else group_name(name)
