"""Machines: a VM is made whole or not at all, found again by its mark, and gone with everything but its disks."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence

from coterie.cpi.contract import CpiError, Json, Mark, Networks, NotSupported, VmCreated, VMNotFound
from coterie.cpi.drivers.cloudstack.agent_settings import own_disks
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.making import Asked, Making
from coterie.cpi.drivers.cloudstack.marking import owner_of, tags_of, users_tags
from coterie.cpi.drivers.cloudstack.nics import answered, wishes
from coterie.cpi.drivers.cloudstack.order import read_order
from coterie.cpi.drivers.cloudstack.refusals import cloud_call

_METADATA_S = 3.0


class Machines(Making):
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
        order, wished = read_order(cloud_properties), wishes(networks)
        asked = Asked(agent_id, stemcell_cid, order, networks, wished, disk_cids, env, mark)
        vm = self.vm_marked(mark)
        if vm is None:
            vm = self.made_vm(asked)
        elif not self.mark_tags(mark).items() <= tags_of(vm).items():
            # whoever made it died before it was finished
            vm = self.finished_vm(vm, asked, self.place(env), mine=False)
        disks = own_disks(self.settings.hypervisor, ephemeral=bool(order.ephemeral_disk_offering))
        return VmCreated(str(vm["id"]), answered(networks, wished, vm), disks)

    @cloud_call
    def delete_vm(self, vm_cid: str) -> None:
        self.remove_vm(vm_cid)

    @cloud_call
    def has_vm(self, vm_cid: str) -> bool:
        row = self.row("listVirtualMachines", vm_cid)
        return row is not None and row.get("state") not in ("Destroyed", "Expunging")

    @cloud_call
    def vm_owner(self, vm_cid: str) -> str | None:
        return owner_of(self.require_vm(vm_cid), self.runtime.director_uuid)

    @cloud_call
    def reboot_vm(self, vm_cid: str) -> None:
        """One that is off is started."""
        row = self.require_vm(vm_cid)
        self.api.run("rebootVirtualMachine" if row.get("state") == "Running" else "startVirtualMachine", id=vm_cid)

    @cloud_call
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        row = self.require_vm(vm_cid)
        self.retag("UserVm", row, users_tags(metadata))
        shown = metadata.get("name")
        if shown and shown != row.get("displayname"):
            self.api.call("updateVirtualMachine", id=vm_cid, displayname=str(shown)[:255])

    @cloud_call
    def current_vm_id(self) -> str:
        """Only true inside a VM of this cloud: its virtual router knows."""
        url = self.settings.metadata_url
        try:
            with urllib.request.urlopen(url, timeout=_METADATA_S) as answer:  # noqa: S310 # the settings allow http only
                return str(answer.read(256).decode("ascii", "replace")).strip()
        except OSError as error:
            raise CpiError(
                "this machine does not seem to be a VM of this cloud",
                why=f"{url}: {error}",
                remedy="run it inside a VM, or set properties.metadata_url to the router's /latest/vm-id",
            ) from error

    @cloud_call
    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        raise NotSupported("networks of a living VM cannot be configured", remedy="recreate the VM")

    def require_vm(self, vm_cid: str) -> Row:
        row = self.row("listVirtualMachines", vm_cid)
        if row is None or row.get("state") in ("Destroyed", "Expunging"):
            raise VMNotFound(f"VM {vm_cid[:80]} is not there", remedy="list what exists, and use one of those")
        return row
