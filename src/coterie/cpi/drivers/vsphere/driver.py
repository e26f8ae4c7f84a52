"""The driver of vSphere clouds: its parts, and the methods that are its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from coterie.cpi.contract import (
    Capabilities,
    CloudObject,
    Forms,
    Json,
    Kind,
    Mark,
    Marking,
    Proof,
    Reason,
    Runtime,
    Trial,
)
from coterie.cpi.drivers.vsphere.checks import Checks, GroupChecks, Proofs, Rights
from coterie.cpi.drivers.vsphere.client import Client
from coterie.cpi.drivers.vsphere.disks import Disks, FileKind
from coterie.cpi.drivers.vsphere.drs import Clusters
from coterie.cpi.drivers.vsphere.group_records import POLICIES, GroupRecords, zone_groups
from coterie.cpi.drivers.vsphere.inventory import Attributes, Inventory, Subfolder, instance_uuid
from coterie.cpi.drivers.vsphere.machines import Machines, Networking
from coterie.cpi.drivers.vsphere.membership import ClusterWriter, Membership
from coterie.cpi.drivers.vsphere.placement import Placement
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error
from coterie.cpi.drivers.vsphere.server_groups import ServerGroups
from coterie.cpi.drivers.vsphere.settings import CLOUD, DISK, NETWORK, VM, Settings, read_settings
from coterie.cpi.drivers.vsphere.stemcells import COPIES, Stemcells
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.composed import ComposedCpi, NoNetworks
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage, described
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile

_FORMATS = ("vsphere-ovf", "vsphere-ova", "vsphere-light")
_DISKS = "vSphere Web Services API, VirtualDiskManager: a virtual disk is a file"
_NETWORKS = "vSphere Networking: port groups and VLANs are set up by the administrator"
_NO_NETWORKS = NoNetworks(
    Reason("port groups are the administrator's", _NETWORKS), "have the administrator create a port group, and name it"
)
_UNSUPPORTED = {
    **WITHOUT_CONFIGURE_NETWORKS,
    **_NO_NETWORKS.unsupported,
    "set_disk_metadata": Reason("a disk's file carries no metadata", _DISKS),
}


@translate_errors(Refusal, contract_error)
class VsphereCpi(ComposedCpi):
    """VMware vCenter. Its properties are those of `settings.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        director = runtime.director_uuid
        self.settings = settings = read_settings(properties)
        limit = call_limit(cloud, settings.max_parallel_calls, director)
        self.client = client = Client(settings, limit, runtime.require_lease)
        self.inventory = inventory = Inventory(client, settings, director)
        attributes = Attributes(client)
        zones = zone_groups(director, cloud, settings.zones)
        placement = Placement(client, inventory, attributes, settings, {one.cid: zone for zone, one in zones.items()})
        clusters = Clusters(client, placement)
        records = GroupRecords(client, inventory, runtime.parts, zones, director)
        self.membership = membership = Membership(inventory, attributes, clusters, records, self._submit)
        self.cluster_writer = ClusterWriter(
            client, inventory, attributes, clusters, records, director, runtime.coordinator, runtime.report
        )
        groups = ServerGroups(client, inventory, placement, attributes, clusters, records, membership, director)
        disks = Disks(client, inventory, placement, settings, director)
        self._stemcells = stemcells = Stemcells(
            client,
            inventory,
            placement,
            attributes,
            settings,
            director,
            runtime.parts,
            runtime.coordinator,
            self._submit,
        )
        networking = Networking(client, inventory, settings)
        self._machines = machines = Machines(
            client, inventory, placement, attributes, networking, stemcells, disks, membership, settings, director
        )
        kinds = _object_kinds(inventory, machines, stemcells, disks, groups)
        objects = ObjectTable(director, kinds, limit, settings.keep)
        self._rights = rights = Rights(client, inventory, placement, cloud, settings.user)
        self._proofs = Proofs(client, inventory, placement, attributes, clusters, records, membership, disks, stemcells)
        group_checks = GroupChecks(placement, clusters, records, groups)
        super().__init__(
            cloud,
            properties,
            runtime,
            profile=Profile(_FORMATS, _capabilities(settings, objects)),
            checks=Checks(client, inventory, placement, rights, group_checks, settings, objects.markings),
            stemcells=stemcells,
            vm_factory=machines,
            machines=machines,
            disks=disks,
            networks=_NO_NETWORKS,
            groups=groups,
            objects=objects,
        )

    def grant(self, user: str, *, groups: bool) -> list[str]:
        return self._rights.grant(user, groups)

    def proofs(self) -> Sequence[str]:
        return tuple(self._proofs.table)

    def prove(self, what: str, trial: Trial) -> Proof:
        return self._proofs.table[what](trial)

    def vm_owner(self, vm_cid: str) -> str | None:
        return self._machines.read_owner(vm_cid)

    def change_server_group(self, vm_cid: str, server_group_cid: str | None) -> None:
        self.membership.move(vm_cid, server_group_cid)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        return (self._stemcells if domain.startswith(COPIES) else self.cluster_writer).apply(domain, changes)

    def _submit(self, domain: str, change: Json) -> Json:
        return self.runtime.coordinator.submit(self, domain, change)


def _object_kinds(
    inventory: Inventory, machines: Machines, stemcells: Stemcells, disks: Disks, groups: ServerGroups
) -> dict[Kind, ObjectKind[CloudObject]]:
    def kind(
        find: Callable[[str, str], CloudObject | None],
        listed: Callable[[str], list[CloudObject]],
        delete: Callable[[str], None],
        cid_of: Callable[[Mark], str],
        subfolder: Subfolder | None = None,
        marking: Marking = "name",
    ) -> ObjectKind[CloudObject]:
        """The CID of an object follows from its mark; a survey is one page, since the vCenter lists a folder whole."""
        return ObjectKind(
            search=lambda mark: [one for one in [find(cid_of(mark), mark.director)] if one and one.state != "building"],
            page=lambda director, _: RowPage(listed(director), complete=inventory.is_complete(subfolder, director)),
            read=find,
            describe=described,
            delete=lambda cid, _: delete(cid),
            marking=marking,
        )

    def file_kind(name: FileKind) -> ObjectKind[CloudObject]:
        find, listed = partial(disks.find_object, name), partial(disks.list_objects, name)
        return kind(find, listed, partial(disks.delete_object, name), Mark.name)

    return {
        "vm": kind(machines.find_vm, machines.list_vms, machines.delete, instance_uuid, "vms", "atomic"),
        "image": kind(
            stemcells.find_object, stemcells.list_objects, stemcells.delete, instance_uuid, "stemcells", "atomic"
        ),
        "disk": file_kind("disk"),
        "snapshot": file_kind("snapshot"),
        "server_group": kind(groups.find_object, groups.list_objects, groups.delete, lambda mark: mark.group_cid),
    }


def _capabilities(settings: Settings, objects: ObjectTable) -> Capabilities:
    return Capabilities(
        driver="vsphere",
        policies=POLICIES,
        kinds=objects.markings,
        filtered=objects.filtered,
        moves_members=True,
        group_changes=frozenset({"host_group", "rule", "affine"}),
        group_privilege="Host.Inventory.EditCluster",
        grants=True,
        resize_disk=True,
        host_visibility=True,
        zone_property="zone",
        settle_s=settings.settle_s,
        max_parallel_calls=settings.max_parallel_calls,
        unsupported=_UNSUPPORTED,
    )
