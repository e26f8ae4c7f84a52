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
from dataclasses import replace
from threading import Lock
from typing import Any

from coterie.cpi.load import driver_names, forms_of
from coterie.director.access import caller
from coterie.director.context import AppContext
from coterie.errors import Conflict, NotFound, Refused, UsageError
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
                remedy="deploy these again, which seals them to the newest key of the group",
            )
        if not keys.retire(tx, _group(group), key_id):
            raise NotFound(f"group {group!r} has no key {key_id}", remedy="see `coterie conductors keys`")


def reseal(context: AppContext, name: str) -> dict[str, str]:
    """Have a conductor of each of a cloud's groups seal its properties to its newest key; the ids of those keys."""
    with context.ledger.read() as tx:
        row = clouds.get(tx, name)
    if row is None:
        raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`")
    if not _key_ids(row):
        raise UsageError(f"cloud {name} has no sealed properties", remedy="there is nothing to seal again")
    questions = [(replace(row, conductor_group=group), "reseal", {"group": group}) for group in row.groups]
    with context.ledger.read() as tx:
        for cloud, _, _ in questions:
            conductors.living(tx).require(cloud.conductor_group, cloud.driver)
    answered: list[dict[str, str]] = ask(context.ledger, questions, _PATIENCE_S)
    with context.ledger.write() as tx:
        return _exchange(tx, row, dict(zip(row.groups, answered, strict=True)))


def _exchange(tx: Tx, row: CloudRow, new: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """`new`: the box of each group."""
    sealed_to = {group: next((where.key_id for where in boxes(box)), "-") for group, box in new.items()}
    for group, key_id in sealed_to.items():
        if not keys.can_open(tx, group, key_id):
            raise Refused(
                f"the conductors of group {group!r} sealed cloud {row.name} to key {key_id}, which is not published",
                why="credentials are sealed to published keys only",
                remedy="publish it first, on a conductor of that group: coterie conductors keys publish",
            )
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
