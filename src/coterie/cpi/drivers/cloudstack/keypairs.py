"""SSH keypairs of VMs: an operator's by name, or a public key that we register under a name of ours."""

from __future__ import annotations

import hashlib
from pathlib import Path

from coterie.cpi.contract import InvalidCall, Mark
from coterie.cpi.drivers.cloudstack.key_halves import public_half
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.marking import mark_of
from coterie.cpi.drivers.cloudstack.order import Order
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal
from coterie.ids import INTENT_LENGTH, base32


class Keypairs(Lookups):
    def keypair(self, order: Order, mark: Mark) -> str | None:
        """The name to deploy with."""
        if order.public_key:
            return self._registered_key(order.public_key, mark)
        return order.key_name or self.settings.default_key_name

    def public_keys(self, order: Order) -> list[str]:
        """What the agent is told: it cannot read the keypair from CloudStack, nor can we."""
        keys = [*self.settings.ssh_public_keys, self.own_public_key(), order.public_key]
        return list(dict.fromkeys(key for key in keys if key))

    def own_public_key(self) -> str | None:
        """The public half of properties.private_key, a PEM text or file; None where there is none to be had."""
        given = self.settings.private_key
        if not given:
            return None
        try:
            return public_half(given if "-----BEGIN" in given else Path(given).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def drop_keypair(self, name: str | None) -> None:
        """Its last user takes a pair of ours away; an operator's stays."""
        if not name or mark_of({"name": name}, self.runtime.director_uuid) is None:
            return
        users = self.api.every("listVirtualMachines", keypair=name)
        if all(row.get("state") in ("Destroyed", "Expunging") for row in users) and self._exists(name):
            self.api.call("deleteSSHKeyPair", name=name)

    def _registered_key(self, public_key: str, mark: Mark) -> str:
        """One pair per key and Director: both name and key are unique in an account."""
        words = public_key.split()
        if len(words) < 2:
            raise InvalidCall("cloud_properties.public_key is no public key", remedy="give one like ssh-ed25519 AAAA…")
        digest = int.from_bytes(hashlib.sha256(" ".join(words[:2]).encode()).digest()[:16], "big")
        name = Mark(mark.director, base32(digest, INTENT_LENGTH)).name()
        if self._exists(name):
            return name
        try:
            self.api.call("registerSSHKeyPair", name=name, publickey=public_key)
        except Refusal as error:
            if error.code != PARAMETER or not self._exists(name):
                raise
        return name

    def _exists(self, name: str) -> bool:
        rows, _ = self.api.page("listSSHKeyPairs", 1, name=name)
        return any(row["name"] == name for row in rows)
