"""Living VMs change their group: first into the new one, then out of the old one, and only then is it written down.

Whoever dies in between repeats it; where the new group cannot be joined the VM is where it was.
"""

from __future__ import annotations

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.vsphere.attachments import Attachments
from coterie.cpi.drivers.vsphere.joining import Joining
from coterie.cpi.drivers.vsphere.marking import GROUP
from coterie.cpi.drivers.vsphere.refusals import cloud_call


class Moves(Joining, Attachments):
    @cloud_call
    def change_server_group(self, vm_cid: str, server_group_cid: str | None) -> None:
        machine = self.require_vm(vm_cid)
        attributes = self.described(self.reader.one(machine, "customValue").get("customValue"))
        if server_group_cid is not None:
            cluster = self.cluster_of_vm(machine)
            if cluster is None:
                raise CpiError(f"VM {vm_cid} is in no cluster", remedy="move it into a cluster of this cloud")
            self.require_holder(server_group_cid)
            self.submit(cluster, {"op": "join", "group": server_group_cid, "vm": machine._moId})
        if attributes.get(GROUP) not in (None, "", server_group_cid):
            self.leave(machine, attributes)
        if attributes.get(GROUP, "") != (server_group_cid or ""):
            self.describe(machine, {GROUP: server_group_cid or ""})
