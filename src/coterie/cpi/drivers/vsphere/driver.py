"""The driver of vSphere clouds; entry point `vsphere`. It builds its parts, and delegates every method of the contract
to one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    Cpi,
    DiskHint,
    Expected,
    Forms,
    GroupMetadata,
    GroupView,
    Json,
    Kind,
    Mark,
    Marking,
    Needs,
    NetworkCreated,
    Networks,
    NotSupported,
    Proof,
    Reason,
    Runtime,
    SurveyPage,
    Trial,
    VmCreated,
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
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage, described
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks

_FORMATS = ("vsphere-ovf", "vsphere-ova", "vsphere-light")
_DISKS = "vSphere Web Services API, VirtualDiskManager: a virtual disk is a file"
_NETWORKS = "vSphere Networking: port groups and VLANs are set up by the administrator"
_UNSUPPORTED = {
    **WITHOUT_CONFIGURE_NETWORKS,
    "create_network": Reason("port groups are the administrator's", _NETWORKS),
    "delete_network": Reason("port groups are the administrator's", _NETWORKS),
    "set_disk_metadata": Reason("a disk's file carries no metadata", _DISKS),
}


@translate_errors(Refusal, contract_error)
class VsphereCpi(Cpi):
    """VMware vCenter. Its properties are those of `settings.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
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
        membership = Membership(inventory, attributes, clusters, records, self._submit)
        self.writer = ClusterWriter(
            client, inventory, attributes, clusters, records, director, runtime.coordinator, runtime.report
        )
        self._groups = ServerGroups(client, inventory, placement, attributes, clusters, records, membership, director)
        self.membership = membership
        self._disks = Disks(client, inventory, placement, settings, director)
        self._stemcells = Stemcells(
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
        self._machines = Machines(
            client,
            inventory,
            placement,
            attributes,
            networking,
            self._stemcells,
            self._disks,
            membership,
            settings,
            director,
        )
        kinds = _object_kinds(inventory, self._machines, self._stemcells, self._disks, self._groups)
        self._objects = ObjectTable(director, kinds, limit, settings.keep)
        self._profile = Profile(_FORMATS, _capabilities(settings, self._objects))
        self._rights = Rights(client, inventory, placement, cloud, settings.user)
        group_checks = GroupChecks(placement, clusters, records, self._groups)
        self._proofs = Proofs(
            client,
            inventory,
            placement,
            attributes,
            clusters,
            records,
            membership,
            self._disks,
            self._stemcells,
        )
        self._checks = Checks(placement, self._rights, group_checks, settings, self._objects.markings)

    # -- what it is --

    def capabilities(self) -> Capabilities:
        return self._profile.capabilities

    def info(self) -> Json:
        return self._profile.info()

    def ping(self) -> str:
        return self._profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        return self._checks.check(needs or Needs())

    def identity(self) -> str | None:
        """What is in another datacenter of the same vCenter is neither listed nor found."""
        datacenter = self.inventory.datacenter.ref._moId
        return f"{datacenter} of vCenter {self.client.content.about.instanceUuid}"

    def grant(self, user: str, *, groups: bool) -> list[str]:
        return self._rights.grant(user, groups)

    def proofs(self) -> Sequence[str]:
        return tuple(self._proofs.table)

    def prove(self, what: str, trial: Trial) -> Proof:
        return self._proofs.table[what](trial)

    # -- stemcells --

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        return self._stemcells.create(image_path, cloud_properties, mark)

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self._stemcells.delete(stemcell_cid)

    # -- machines --

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
        return self._machines.create(agent_id, stemcell_cid, cloud_properties, networks or {}, env or {}, mark)

    def delete_vm(self, vm_cid: str) -> None:
        self._machines.delete(vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self.inventory.find_vm(vm_cid) is not None

    def vm_owner(self, vm_cid: str) -> str | None:
        return self._machines.read_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self._machines.reboot(vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self._machines.set_metadata(vm_cid, metadata)

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        return self._machines.calculate_properties(requirements)

    def current_vm_id(self) -> str:
        return self._machines.current_id()

    # -- disks --

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        return self._disks.create(size_mb, cloud_properties, vm_cid, mark)

    def delete_disk(self, disk_cid: str) -> None:
        self._disks.delete("disk", disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self._disks.has(disk_cid)

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return self._disks.attach(vm_cid, disk_cid)

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        self._disks.detach(vm_cid, disk_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self._disks.list_attached(vm_cid)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        raise NotSupported("a disk is a file and carries no metadata", remedy="look at the VM's metadata")

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._disks.resize(disk_cid, new_size_mb)

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self._disks.update(disk_cid, new_size_mb, cloud_properties)
        return None

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        return self._disks.create_snapshot(disk_cid, mark)

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._disks.delete("snapshot", snapshot_cid)

    # -- networks --

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        raise NotSupported(
            "this driver makes no networks", remedy="have the administrator make a port group, and name it"
        )

    def delete_network(self, network_cid: str) -> None:
        raise NotSupported("this driver makes no networks", remedy="have the administrator delete the port group")

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        refuse_configure_networks()

    # -- server groups --

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        return self._groups.create(metadata, mark)

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self._groups.update(cid, metadata)

    def delete_server_group(self, cid: str) -> None:
        self._groups.delete(cid)

    def inspect_server_group(self, cid: str) -> GroupView:
        return self._groups.inspect(cid)

    def change_server_group(self, vm_cid: str, server_group_cid: str | None) -> None:
        self.membership.move(vm_cid, server_group_cid)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        return (self._stemcells if domain.startswith(COPIES) else self.writer).apply(domain, changes)

    # -- what is there --

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self._objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self._objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self._objects.delete_object(kind, cid, expected)

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
        return kind(find, listed, partial(disks.delete, name), Mark.name)

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
