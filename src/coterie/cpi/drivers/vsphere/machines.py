"""Machines: a VM is made whole or not at all, found again by its mark, and gone with everything but its disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.cpi.contract import (
    InvalidCall,
    Json,
    Mark,
    Networks,
    NoPlacement,
    VmCreated,
    VMNotFound,
)
from coterie.cpi.drivers.vsphere.boots import Boots
from coterie.cpi.drivers.vsphere.choice import chosen
from coterie.cpi.drivers.vsphere.making import clone_spec
from coterie.cpi.drivers.vsphere.marking import instance_uuid, owner_of, users_attributes
from coterie.cpi.drivers.vsphere.nics import Card
from coterie.cpi.drivers.vsphere.order import Order, read_order
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.refusals import Refusal, cloud_call
from coterie.cpi.drivers.vsphere.templates import Template, Templates

_SELF = Path("/sys/class/dmi/id/product_uuid")


class Machines(Boots, Templates):
    @cloud_call
    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: Networks,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        order = read_order(cloud_properties or {})
        zones = self.in_zone(order.zone)
        group = self.group_of(env or {})
        cards = self.cards(networks or {})
        template = self.template(stemcell_cid)
        problem: NoPlacement | None = None
        for zone in self.roomy(zones, order, mark.intent):
            try:
                machine = self._cloned(template, order, cards, zone, mark)
                answer = self.whole(machine, agent_id, networks or {}, cards, env or {}, group)
                return VmCreated(instance_uuid(mark), answer)
            except NoPlacement as error:
                problem = error  # nothing is left of it, and the zone may have another cluster
        raise problem or NoPlacement("the zone has no cluster", remedy="check properties.zones")

    @cloud_call
    def delete_vm(self, vm_cid: str) -> None:
        found = self.vm(vm_cid)
        if found is not None:
            self.remove(found)
        self.tidy("vms")

    @cloud_call
    def has_vm(self, vm_cid: str) -> bool:
        return self.vm(vm_cid) is not None

    @cloud_call
    def vm_owner(self, vm_cid: str) -> str | None:
        machine = self.require_vm(vm_cid)
        row = self.reader.one(machine, "name", "parent", "customValue")
        path, above = [str(row.get("name"))], row.get("parent")
        for _ in range(2):
            if above is not None:
                folder = self.reader.one(above, "name", "parent")
                path, above = [*path, str(folder.get("name"))], folder.get("parent")
        return owner_of(path, self.described(row.get("customValue")), self.runtime.director_uuid)

    @cloud_call
    def reboot_vm(self, vm_cid: str) -> None:
        machine = self.require_vm(vm_cid)
        try:
            self.tasks.run(machine.ResetVM_Task)
        except Refusal as refusal:
            if not refusal.is_a("InvalidPowerState"):
                raise
            self.tasks.run(machine.PowerOnVM_Task)

    @cloud_call
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        """Custom attributes. The VM's name stays: it bears the mark."""
        self.describe(self.require_vm(vm_cid), users_attributes(metadata))

    @cloud_call
    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        for key in ("cpu", "ram", "ephemeral_disk_size"):
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy=f"give {key}")
        order = Order(requirements["cpu"], requirements["ram"], requirements["ephemeral_disk_size"])
        self.roomy(list(self.zones().values()), order, "")
        return {"cpu": order.cpu, "ram": order.ram, "disk": order.disk}

    @cloud_call
    def current_vm_id(self) -> str:
        """The VM that this process runs in, by the uuid of its board."""
        try:
            board = _SELF.read_text().strip().lower()
        except OSError as error:
            raise VMNotFound("this machine's uuid cannot be read", why=str(error), remedy="run as root") from error
        found = self.link.ask(self.link.content.searchIndex.FindByUuid, None, board, True, False)
        if found is None:
            raise VMNotFound("this process runs in no VM of this vCenter", remedy="run it in one")
        return str(self.reader.one(found, "config.instanceUuid").get("config.instanceUuid"))

    def _cloned(self, template: Template, order: Order, cards: list[Card], zone: Zone, mark: Mark) -> Any:
        """The VM of this mark, off; somebody may have cloned it before, or be doing so now."""
        stores = self.stores([zone], order.datastores or self.settings.datastores)
        store = chosen(stores, mark.intent, order.disk)
        source = self.near(template, zone, store)
        spec = clone_spec(source, order, cards, zone, store, mark, self.settings.linked_clones)
        try:
            return self.tasks.run(source.ref.CloneVM_Task, self.made_folder("vms"), mark.name(), spec)
        except Refusal as refusal:
            found = self.machine(instance_uuid(mark)) if refusal.is_a("DuplicateName") else None
            if found is None:
                raise
            return found
