"""Seals what comes in: the properties of clouds go on to the ledger sealed to the conductors of their group.

The Director has no key that opens them again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from threading import Lock
from typing import Any

from coterie.cpi.load import driver_names, forms_of
from coterie.director.context import Office
from coterie.ledger.rows import clouds, keys
from coterie.ledger.work import conductors
from coterie.ring.members import group_name
from coterie.seal.config import KeyOf, Known, seal_config, seal_properties
from coterie.seal.key import PublicKey
from coterie.seal.sealed import Purpose, address, seal

_REMEMBERED = 256


def sealed(office: Office, text: str, file: str) -> str:
    """A cloud config without readable properties; mistakes in it are told with its own lines."""
    key_of, known = _keys(office)
    return seal_config(text, file, key_of, known, sealer=_SEALER, drivers=driver_names(), forms_of=forms_of)


def require_movable(office: Office, name: str, group: str) -> None:
    """Work on a cloud may go only to a group that has conductors for it, and can open its properties."""
    with office.ledger.read() as tx:
        row = clouds.get(tx, name)
        if row is not None:
            conductors.living(tx).require(group_name(group), row.driver)
    if row is not None and address(row.properties or {}):
        seal_properties(Purpose(name, row.driver, group_name(group)), row.properties, *_keys(office))


def _keys(office: Office) -> tuple[KeyOf, Known]:
    def key_of(group: str) -> PublicKey | None:
        with office.ledger.read() as tx:
            found = keys.of_group(tx, group)
        return PublicKey.read(found[0].public) if found else None

    def known(group: str, key_id: str) -> bool:
        with office.ledger.read() as tx:
            return keys.can_open(tx, group, key_id)

    return key_of, known


class _Sealer:
    """Gives the same sealed text for the same properties while the process lives, so that a config that is set again
    is the same config. It remembers a keyed hash of what it sealed, which tells nothing."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._made: OrderedDict[bytes, dict[str, str]] = OrderedDict()
        self._turn = Lock()

    def __call__(self, key: PublicKey, purpose: Purpose, properties: dict[str, Any]) -> dict[str, str]:
        what = json.dumps([key.id, purpose.cloud, purpose.driver, purpose.group, properties], sort_keys=True)
        digest = hmac.new(self._secret, what.encode(), hashlib.sha256).digest()
        with self._turn:
            if digest not in self._made:
                self._made[digest] = seal(key, purpose, properties)
            self._made.move_to_end(digest)
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
            return self._made[digest]


_SEALER = _Sealer()
