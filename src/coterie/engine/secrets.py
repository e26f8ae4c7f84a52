"""Opens the sealed secrets of machines, inside a conductor: the only place where they are read."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from coterie.errors import CoterieError, KeyMissing, NotFound, Refused
from coterie.ledger.rows import machine_secrets
from coterie.ledger.store import Ledger
from coterie.redact import KNOWN
from coterie.seal.keys import KeyFile
from coterie.seal.machine import MachineSecrets, open_secrets, seal_secrets

log = logging.getLogger(__name__)
_REMEMBERED = 256


class SecretReader:
    """What was opened is kept in memory, so that a task of many nodes reads it once."""

    def __init__(self, ledger: Ledger, keys: KeyFile | None) -> None:
        self._ledger = ledger
        self._keys = keys
        self._opened: OrderedDict[tuple[str, str], MachineSecrets] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, name: str, deployment: str) -> MachineSecrets:
        """Raises KeyMissing where another conductor may have the key, NotFound where nothing is stored any more."""
        key = (name, deployment)
        with self._lock:
            if key in self._opened:
                self._opened.move_to_end(key)
                return self._opened[key]
        found = self._read(name, deployment)
        KNOWN.learn(found.wire())
        with self._lock:
            self._opened[key] = found
            if len(self._opened) > _REMEMBERED:
                self._opened.popitem(last=False)
        return found

    def find(self, name: str, deployment: str) -> MachineSecrets | None:
        """None where this conductor cannot open them."""
        try:
            return self.open(name, deployment)
        except CoterieError:
            return None

    def reseal(self, names: Iterable[str], group: str) -> dict[str, Any]:
        """The secrets that are stored for a group under these names, sealed to our newest key, and that key's id. The
        caller cannot choose the key. What cannot be opened here is left out."""
        newest = self._keys.newest() if self._keys else None
        if self._keys is None or newest is None:
            raise KeyMissing("this conductor has no key", remedy="copy the key file from a conductor of its group")
        with self._ledger.read() as tx:
            rows = [row for name in names for row in machine_secrets.of_name(tx, name) if row.conductor_group == group]
        sealed: dict[str, str] = {}
        for row in rows:
            key = self._keys.find(row.key_id)
            if key is None:
                continue
            try:
                opened = open_secrets(key, row.name, row.deployment, row.sealed)
            except Refused as error:
                log.warning("not sealed again: %s: %s", error, error.why)
                continue
            sealed[row.name] = seal_secrets(newest.public, row.name, row.deployment, opened)
        return {"key": newest.public.id, "sealed": sealed}

    def _read(self, name: str, deployment: str) -> MachineSecrets:
        with self._ledger.read() as tx:
            rows = machine_secrets.of_name(tx, name)
        if not rows:
            raise NotFound(
                f"env and user_data of a node of deployment {deployment} are not stored any more",
                why="they were replaced by others",
                remedy="deploy its manifest again",
            )
        for row in rows:
            key = self._keys.find(row.key_id) if self._keys else None
            if key is not None:
                return open_secrets(key, name, deployment, row.sealed)
        ids = " and ".join(sorted({row.key_id for row in rows}))
        raise KeyMissing(
            f"this conductor cannot open env and user_data of deployment {deployment}",
            why=f"they are sealed to key {ids}, which is not in its key file",
            remedy="copy the key file from a conductor of its group, or deploy the manifest again, which seals them to "
            "the keys of its conductor groups",
        )
