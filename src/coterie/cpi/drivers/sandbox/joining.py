"""How a VM gets into its group: in the call that boots it, or, where members are one list, through the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import is_adopted, revive
from coterie.cpi.drivers.sandbox.group_tags import guards_in
from coterie.cpi.drivers.sandbox.holders import Holders, group_missing
from coterie.sandbox.vm_shape import Vm


@dataclass(frozen=True, slots=True)
class Place:
    """The group that a new VM goes into: its CID, the cloud's id where the boot call takes it, what guards members."""

    cid: str
    group: str | None
    guards: tuple[str, ...]


class Joining(Holders):
    def place(self, env: Mapping[str, Any]) -> Place | None:
        """The group named in env.bosh.server_group_cid, looked up now: a group that is gone is noticed here."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        if is_adopted(cid):
            adopted = self.zone_groups(cid)
            if not adopted:
                raise group_missing(cid)
            return Place(cid, None if self.settings.single_writer else adopted[0].id, ())
        holder = self.require_holder(cid)
        return Place(cid, None if self.settings.single_writer else holder.id, guards_in(holder.tags))

    def join(self, cid: str, vm: Vm) -> None:
        """Returns when the VM is seen in its group; only where members are one list."""
        zone = str(vm.zone)
        change = {"op": "join", "group": cid, "zone": zone, "vm": vm.id}
        outcome = self.runtime.coordinator.submit(self, f"{self.cloud}/{zone}", change)
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})

    def rejoin(self, cid: str, vm: Vm) -> None:
        """Bring back a VM that another writer dropped from the list."""
        if self.settings.single_writer and vm.host and not vm.groups:
            self.join(cid, vm)
