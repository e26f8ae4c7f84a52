"""SSH keypairs of VMs: an operator's by name, or a public key that we register under a name of ours. Nova keeps them
per user and by unique names."""

from __future__ import annotations

import hashlib

from coterie.cpi.contract import InvalidCall, Mark
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.marking import mark_of_name
from coterie.cpi.drivers.openstack.order import Order
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal

_DIGEST = 20  # characters of a key's digest at the end of its pair's name


class Keypairs(Lookups):
    def keypair(self, order: Order, mark: Mark) -> str | None:
        """The name to boot with."""
        if order.public_key:
            return self._registered_key(order.public_key, mark)
        return order.key_name or self.settings.default_key_name

    def drop_keypair(self, name: str | None) -> None:
        """Its last user takes a pair of ours away; an operator's stays."""
        if name and mark_of_name(name, self.runtime.director_uuid) and not self.key_users(name):
            self.delete_keypair(name)

    def key_users(self, name: str) -> tuple[str, ...]:
        """Older releases ignore the filter, so each row is looked at."""
        rows = self.rows("vm", key_name=name)
        return tuple(str(row["id"]) for row in rows if row.get("key_name") == name and not is_gone(row))

    def has_keypair(self, name: str) -> bool:
        return self.api.look(f"look at keypair {name}", "compute", f"/os-keypairs/{name}") is not None

    def delete_keypair(self, name: str) -> None:
        try:
            self.api.send("DELETE", f"delete keypair {name}", "compute", f"/os-keypairs/{name}")
        except Refusal as error:
            if error.status != MISSING:
                raise

    def _registered_key(self, public_key: str, mark: Mark) -> str:
        """One pair for all VMs with this key, under the mark of the first: so cleanup knows whose it was. Two that
        come at once make two, and each goes with its last VM."""
        words = public_key.split()
        if len(words) < 2:
            raise InvalidCall("cloud_properties.public_key is no public key", remedy="give one like ssh-ed25519 AAAA…")
        end = f"-{hashlib.sha256(' '.join(words[:2]).encode()).hexdigest()[:_DIGEST]}"
        names = [str(row["name"]) for row in self.rows("keypair")]
        ours = [one for one in names if one.endswith(end) and mark_of_name(one, mark.director)]
        if ours:
            return min(ours)
        name = f"{mark.name()}{end}"
        try:
            pair = {"keypair": {"name": name, "public_key": public_key, "type": "ssh"}}
            self.api.send("POST", "register a keypair", "compute", "/os-keypairs", pair)
        except Refusal as error:
            if error.status != CONFLICT or error.quota:
                raise
        return name
