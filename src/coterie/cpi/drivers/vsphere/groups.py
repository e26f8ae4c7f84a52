"""Server groups: reserved before their first VM, and removed after their last. Joining is `joining`'s business."""

from __future__ import annotations

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupMetadata,
    GroupMissing,
    InvalidCall,
    Mark,
    NotSupported,
    is_adopted,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.group_spec import GroupSpec, read_spec, wanted_name
from coterie.cpi.drivers.vsphere.holders import Holder
from coterie.cpi.drivers.vsphere.joining import Joining
from coterie.cpi.drivers.vsphere.marking import GROUP
from coterie.cpi.drivers.vsphere.names import Names, require_host_group
from coterie.cpi.drivers.vsphere.reading import Row
from coterie.cpi.drivers.vsphere.refusals import cloud_call
from coterie.cpi.drivers.vsphere.rules import host_rule, policy_of


class Groups(Joining, Names):
    @cloud_call
    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        spec = read_spec(metadata, mark.group_cid)
        views = self.views()
        if metadata.options.get("adopt"):
            return _adopted(metadata, views)
        if self.holder(mark.group_cid) is None:
            self.require_free_name(metadata.options, spec, views)
            require_host_group(spec, views)
            self.make_holder(mark.group_cid, spec)
        return mark.group_cid

    @cloud_call
    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        """Zones and hosts may change freely; members that another writer dropped come back; what was removed is made
        again."""
        if is_adopted(cid):
            return
        holder, spec = self.require_holder(cid), read_spec(metadata, cid)
        if not spec.same_group(holder.spec):
            raise NotSupported(
                f"server group {cid} keeps its policy {holder.spec.policy} and its name for life",
                remedy="recreate the group",
            )
        if spec != holder.spec:
            self._retie(holder, spec)
        for row in self.wishing(cid):
            self.submit(self.cluster_of_vm(row.ref), {"op": "restore", "group": cid, "vm": row.ref._moId})

    @cloud_call
    def delete_server_group(self, cid: str) -> None:
        holder = self.holder(cid, whole=False)
        if is_adopted(cid):
            return
        if holder is None:
            self.tidy("groups")  # who removed it may have died before that
            return
        self.require_no_vms(holder.ref)
        for key, view in self.views().items():
            if view.vm_group(holder.spec.name) or holder.spec.name in view.rules or view.about(holder.spec.name):
                self.submit(self.zones()[key].cluster, {"op": "delete", "group": cid, "vm": ""})
        self.remove_holder(holder)

    def _retie(self, holder: Holder, spec: GroupSpec) -> None:
        """To other hosts, or to none. While the old wish is written down, the old rule is known to be ours: a rule that
        nobody will ask for goes first."""
        views = self.views()
        require_host_group(spec, views)
        self.require_free_rule(holder, spec, views)
        for key, view in views.items() if not spec.host_group else ():
            if host_rule(view, holder.spec):
                self.submit(self.zones()[key].cluster, {"op": "untie", "group": holder.cid, "vm": ""})
        self.relabel(holder, spec)

    def wishing(self, cid: str) -> list[Row]:
        """Our VMs that belong to this group, whether or not the vCenter has them in it."""
        folder = self.folder("vms")
        if folder is None:
            return []
        paths = ("name", "customValue", "config.instanceUuid", "runtime.powerState")
        rows = self.reader.below(folder, sdk.vim.VirtualMachine, *paths)
        return [row for row in rows if self.described(row.get("customValue")).get(GROUP) == cid]


def _adopted(metadata: GroupMetadata, views: dict[str, ClusterView]) -> str:
    name = wanted_name(metadata.options)
    if not name:
        raise InvalidCall("options.adopt needs options.vm_group or a name", remedy="name the operator's group")
    having = [view for view in views.values() if view.vm_group(name)]
    if not having:
        raise GroupMissing(
            f"there is no DRS VM group {name!r} to adopt",
            why=f"looked in {', '.join(sorted(view.name for view in views.values()))}",
            remedy="have the operator make it, or leave adopt out to make one of our own",
        )
    group = having[0].vm_group(name)
    promised = policy_of(having[0], group.name if group else name)
    if metadata.policy != promised:
        raise InvalidCall(
            f"DRS VM group {name!r} promises {promised}, not {metadata.policy}",
            remedy=f"say placement.policy: {promised}, or adopt another group",
        )
    return ADOPTED_PREFIX + (group.name if group else name)
