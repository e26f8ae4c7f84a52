"""Machines: a VM is made whole or not at all, found again by its mark, and gone with everything but its disks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    InvalidCall,
    Json,
    Mark,
    Networks,
    VmCreated,
    VMNotFound,
)
from coterie.cpi.drivers.sandbox import sizes
from coterie.cpi.drivers.sandbox.addresses import answered, wishes
from coterie.cpi.drivers.sandbox.boots import Boots
from coterie.cpi.drivers.sandbox.guards import Guards
from coterie.cpi.drivers.sandbox.joining import Place
from coterie.cpi.drivers.sandbox.marking import DIRECTOR, GROUP, OWN_GUARDS, mark_tags, users_tags
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.cpi.drivers.sandbox.sizes import Order
from coterie.sandbox import vms
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fit import Demand
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.tags import set_tags
from coterie.sandbox.vm_shape import get_vm

SELF = "COTERIE_SANDBOX_VM"


class Machines(Boots, Guards):
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
        order = sizes.read_order(cloud_properties or {})
        place = self.place(env or {})
        own = self.existing(order.security_groups)
        vm = vms.create_vm(
            self.account,
            name=mark.name(),
            size=self._in_a_zone(order),
            image=stemcell_cid,
            nics=wishes(networks or {}),
            group=place.group if place else None,
            security_groups=(*own, *(place.guards if place else ())),
            near_disks=disk_cids or (),
            user_data=json.dumps({"agent_id": agent_id, "env": env or {}}),
            start=not (place and self.settings.single_writer),
            tags=_tags(mark, agent_id, place, own),
            client_token=mark.intent,
        )
        disks = {"system": "/dev/sda", "ephemeral": "/dev/sdb"}
        return VmCreated(vm.id, answered(networks or {}, self.whole(vm, place)), disks)

    @cloud_call
    def delete_vm(self, vm_cid: str) -> None:
        try:
            vms.delete_vm(self.account, vm_cid)
        except NoSuch:
            return

    @cloud_call
    def has_vm(self, vm_cid: str) -> bool:
        try:
            get_vm(self.account, vm_cid)
        except NoSuch:
            return False
        return True

    @cloud_call
    def vm_owner(self, vm_cid: str) -> str | None:
        return get_vm(self.account, vm_cid).tags.get(DIRECTOR)

    @cloud_call
    def reboot_vm(self, vm_cid: str) -> None:
        vms.reboot_vm(self.account, vm_cid)

    @cloud_call
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        """Tags; `name` also becomes the VM's name, as people look for it by that."""
        rename = metadata.get("name")
        set_tags(self.account, vm_cid, "vm", users_tags(metadata), rename=None if rename is None else str(rename))

    @cloud_call
    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        for key in ("cpu", "ram", "ephemeral_disk_size"):
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy=f"give {key}")
        return sizes.smallest(requirements, list_hosts(self.account))

    @cloud_call
    def current_vm_id(self) -> str:
        """The VM that this process runs in, as its environment says: a simulated VM runs no process."""
        cid = os.environ.get(SELF, "")
        if not cid or not self.has_vm(cid):
            raise VMNotFound("this process runs in no VM of this sandbox", remedy=f"set {SELF} to the cid of one")
        return cid

    def _in_a_zone(self, order: Order) -> Demand:
        if order.size.zone:
            return order.size
        zones = sorted({host.zone for host in list_hosts(self.account)})
        if len(zones) > 1:
            raise InvalidCall("cloud_properties.zone is missing", remedy=f"use one of: {', '.join(zones)}")
        return Demand(order.size.cpu, order.size.ram_mb, order.size.disk_mb, zones[0] if zones else None)


def _tags(mark: Mark, agent_id: str, place: Place | None, own: Sequence[str]) -> dict[str, str]:
    tags: dict[str, Any] = {**mark_tags(mark), "agent_id": agent_id}
    if place:
        tags[GROUP] = place.cid
    if own:
        tags[OWN_GUARDS] = " ".join(own)
    return tags
