"""Machines: a VM is cloned off, gets its agent's settings, joins its group and is powered on; or nothing of it is left.
It is found again by its mark, and deleted with everything but its persistent disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.contract import (
    CloudObject,
    CpiError,
    InvalidCall,
    Json,
    Mark,
    NetworkNotFound,
    Networks,
    NoPlacement,
    OutcomeUnknown,
    VmCreated,
    VMCreationFailed,
    VMNotFound,
)
from coterie.cpi.drivers.vsphere import devices, sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.devices import Nic
from coterie.cpi.drivers.vsphere.disks import Disks
from coterie.cpi.drivers.vsphere.inventory import (
    NAME_LIMIT,
    OBJECT,
    ZONE,
    Attributes,
    Inventory,
    created_at,
    instance_uuid,
    owner_of,
    vm_mark,
)
from coterie.cpi.drivers.vsphere.membership import Membership
from coterie.cpi.drivers.vsphere.placement import Placement, ZoneCluster
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error, tolerate
from coterie.cpi.drivers.vsphere.settings import NETWORK, Settings, VmProperties, read_vm_properties
from coterie.cpi.drivers.vsphere.stemcells import Stemcells, Template
from coterie.cpi.kit.cd_image import cd_image
from coterie.cpi.kit.create_vm import CreateVmCall, refuse_prefix
from coterie.cpi.kit.marking import GROUP, metadata_tags
from coterie.errors import CoterieError
from coterie.slotted import dataclass, replace

_POWER, _DEVICES, _VMX = "runtime.powerState", "config.hardware.device", "config.files.vmPathName"
_STATES = {"poweredOn": "running", "poweredOff": "stopped", "suspended": "stopped"}
_BOARD_UUID = Path("/sys/class/dmi/id/product_uuid")


class Networking:
    """Which port group each network of a VM is."""

    def __init__(self, client: Client, inventory: Inventory, settings: Settings) -> None:
        self._client = client
        self._inventory = inventory
        self._settings = settings
        self._port_groups: Mapping[str, list[Any]] = {}  # name → references

    def read_nics(self, networks: Networks) -> list[Nic]:
        """One NIC per network, or for all of one nic_group; a vip is an address and has none."""
        nics, port_groups = dict[str, Nic](), dict[str, Any]()
        for name, spec in networks.items():
            kind = str(spec.get("type", "manual"))
            if kind not in ("manual", "dynamic", "vip"):
                raise InvalidCall(f"networks.{name}.type is {kind!r}", remedy="use one of: manual, dynamic, vip")
            refuse_prefix(name, {**spec, "prefix": None if kind == "dynamic" else spec.get("prefix")})
            if kind == "vip":
                continue
            slot, port_group = str(spec.get("nic_group") or f"\0{name}"), self._find_port_group(name, spec)
            if slot not in nics:
                nics[slot], port_groups[slot] = Nic((name,), self._backing(port_group)), port_group
            elif port_groups[slot] == port_group:
                nics[slot] = replace(nics[slot], networks=(*nics[slot].networks, name))
            else:
                raise InvalidCall(
                    f"networks.{name}.nic_group is shared with network {nics[slot].networks[0]} of another port group",
                    remedy="give networks of different port groups different ones, or none",
                )
        return list(nics.values())

    def _find_port_group(self, network: str, spec: Mapping[str, Any]) -> Any:
        given = NETWORK.read(spec.get("cloud_properties") or {}, f"networks.{network}.cloud_properties")
        name = given.get("name") or self._settings.network
        if name is None:
            raise InvalidCall(
                f"networks.{network}.cloud_properties.name is missing",
                remedy="name the port group, or set properties.network",
            )
        if name not in self._port_groups:
            self._port_groups = self._read_port_groups()
        found, datacenter = self._port_groups.get(name, []), self._inventory.datacenter.path
        if not found:
            raise NetworkNotFound(
                f"there is no port group {name!r} in {datacenter}",
                remedy=f"use one of: {', '.join(sorted(self._port_groups)[:20])}",
            )
        if len(found) > 1:
            raise InvalidCall(
                f"networks.{network}: {datacenter} has more than one port group {name!r}",
                why=", ".join(ref._moId for ref in found),
                remedy="have the administrator rename all but one",
            )
        return found[0]

    def _read_port_groups(self) -> dict[str, list[Any]]:
        refs = self._client.get(self._inventory.datacenter.ref, "network") or []
        unique = list({ref._moId: ref for ref in refs}.values())
        found: dict[str, list[Any]] = {}
        for row in self._client.read_all(unique, sdk.vim.Network, ["name"]):
            found.setdefault(str(row.get("name")), []).append(row.ref)
        return found

    def _backing(self, port_group: Any) -> Any:
        ethernet = sdk.vim.vm.device.VirtualEthernetCard
        if not isinstance(port_group, sdk.vim.dvs.DistributedVirtualPortgroup):
            name = self._client.get(port_group, "name")
            return ethernet.NetworkBackingInfo(deviceName=name, network=port_group)
        row = self._client.read(port_group, "key", "config.distributedVirtualSwitch")
        switch = self._client.get(row.get("config.distributedVirtualSwitch"), "uuid")
        connection = sdk.vim.dvs.PortConnection(portgroupKey=row.get("key"), switchUuid=switch)
        return ethernet.DistributedVirtualPortBackingInfo(port=connection)


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client
    inventory: Inventory
    placement: Placement
    attributes: Attributes
    networking: Networking
    stemcells: Stemcells
    disks: Disks
    membership: Membership
    settings: Settings
    director_uuid: str

    def create(self, call: CreateVmCall) -> VmCreated:
        size = read_vm_properties(call.cloud_properties)
        group = self.membership.requested_group(call.env, size.vm_group)
        clusters = self.membership.list_joinable(group, self.placement.in_zone(size.zone))
        nics = self.networking.read_nics(call.networks)
        template = self.stemcells.require_template(call.stemcell_cid)
        problem = NoPlacement("the zone has no cluster", remedy="check properties.zones")
        for cluster in self.placement.list_fitting(clusters, size, call.mark.intent):
            try:
                machine = self._clone(template, size, nics, cluster, call.mark)
                answer = self._finish(machine, size, call.agent_id, call.networks, nics, call.env, group, cluster.zone)
                return VmCreated(instance_uuid(call.mark), answer)
            except NoPlacement as error:
                problem = error  # nothing is left of it, and the zone may have another cluster
        raise problem

    def exists(self, cid: str) -> bool:
        return self.inventory.find_vm(cid) is not None

    def delete(self, cid: str) -> None:
        found = self.inventory.find_vm(cid)
        if found is not None:
            self._remove(found)
        self.inventory.remove_empty_folders("vms")

    def reboot(self, cid: str) -> None:
        machine = self.inventory.require_vm(cid)
        try:
            self.client.run(machine.ResetVM_Task)
        except Refusal as refusal:
            if not refusal.is_a("InvalidPowerState"):
                raise
            self.client.run(machine.PowerOnVM_Task)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        """As custom attributes. The VM's name stays: it bears the mark."""
        self.attributes.write(self.inventory.require_vm(cid), metadata_tags(metadata, longest_key=NAME_LIMIT))

    def read_owner(self, cid: str) -> str | None:
        row = self.client.read(self.inventory.require_vm(cid), "name", "parent", "customValue")
        path, above = [str(row.get("name"))], row.get("parent")
        while above is not None and len(path) < 3:
            folder = self.client.read(above, "name", "parent")
            path, above = [*path, str(folder.get("name"))], folder.get("parent")
        return owner_of(path, self.attributes.by_name(row.get("customValue")), self.director_uuid)

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        for key in ("cpu", "ram", "ephemeral_disk_size"):
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy=f"give {key}")
        size = VmProperties(requirements["cpu"], requirements["ram"], requirements["ephemeral_disk_size"])
        self.placement.list_fitting(list(self.placement.clusters.values()), size, "")
        return {"cpu": size.cpu, "ram": size.ram, "disk": size.disk}

    def list_disks(self, cid: str) -> list[str]:
        return self.disks.list_attached(cid)

    def current_id(self) -> str:
        """The VM that this process runs in, by the uuid of its board."""
        try:
            board = _BOARD_UUID.read_text().strip().lower()
        except OSError as error:
            raise VMNotFound("this machine's uuid cannot be read", why=str(error), remedy="run as root") from error
        found = self.inventory.find_machine(board, by_instance=False)
        if found is None:
            raise VMNotFound("this process runs in no VM of this vCenter", remedy="run it in one")
        return str(self.client.get(found, "config.instanceUuid"))

    def list_vms(self, director_uuid: str) -> list[CloudObject]:
        return self._objects(self.inventory.list_machines("vms", director_uuid, *OBJECT), director_uuid)

    def find_vm(self, cid: str, director_uuid: str) -> CloudObject | None:
        ref = self.inventory.find_vm(cid)
        return self._objects([self.client.read(ref, *OBJECT)], director_uuid)[0] if ref is not None else None

    def _clone(self, template: Template, size: VmProperties, nics: list[Nic], cluster: ZoneCluster, mark: Mark) -> Any:
        """The VM of this mark, off. Another call may have cloned it before, or be doing so now."""
        need_mb = (
            size.disk + size.ram + size.root_disk_size_gb * 1024
        )  # the file that the VM's memory is swapped to, too
        store = self.placement.choose_store([cluster], size.datastores, False, mark.intent, need_mb)
        source = self.stemcells.ensure_replica(template, cluster, store)
        # a disk that grows from another cannot be made larger
        snapshot = source.snapshot if self.settings.linked_clones and not size.root_disk_size_gb else None
        disk_move = "moveAllDiskBackingsAndDisallowSharing" if snapshot is None else "createNewChildDiskBacking"
        host = self.placement.host_without_drs(cluster, mark.intent)
        spec = sdk.vim.vm.CloneSpec(
            location=sdk.vim.vm.RelocateSpec(datastore=store.ref, pool=cluster.pool, host=host, diskMoveType=disk_move),
            powerOn=False,
            template=False,
            config=devices.clone_config(
                source.devices, size, nics, store.name, instance_uuid(mark), self._mhz(cluster, size)
            ),
            snapshot=snapshot,
        )
        try:
            return self.client.run(source.ref.CloneVM_Task, self.inventory.ensure_folder("vms"), mark.name(), spec)
        except Refusal as refusal:
            found = self.inventory.find_machine(instance_uuid(mark)) if refusal.is_a("DuplicateName") else None
            if found is None:
                raise
            return found

    def _mhz(self, cluster: ZoneCluster, size: VmProperties) -> int:
        """What is reserved of the CPU: all of its cores on the slowest host."""
        if not size.cpu_reserve_full_mhz:
            return 0
        return size.cpu * min((host.mhz for host in self.placement.list_hosts(cluster)), default=0)

    def _finish(
        self,
        machine: Any,
        size: VmProperties,
        agent_id: str,
        networks: Networks,
        nics: list[Nic],
        env: Json,
        group: str | None,
        zone: str,
    ) -> Json:
        """The networks of the VM, once it has joined its groups and runs. Where it cannot be finished, it is removed
        before the failure is raised."""
        try:
            row = self.client.read(machine, "name", _POWER, _VMX, _DEVICES)
            answer = devices.with_macs(networks, nics, row.get(_DEVICES))
            if row.get(_POWER) != "poweredOn":
                growth = devices.grow_root(row.get(_DEVICES), size.root_disk_size_gb * 1024 * 1024)
                if growth:
                    self.client.run(machine.ReconfigVM_Task, sdk.vim.vm.ConfigSpec(deviceChange=growth))
                self._configure_agent(row, agent_id, answer, env)
                self.membership.join(group, machine, zone)
                with tolerate("InvalidPowerState"):  # on already: another call finishes the same VM
                    self.client.run(machine.PowerOnVM_Task)
            return answer
        except CoterieError as error:
            running = self._undo(machine, error)
            if running is not None:
                return devices.with_macs(networks, nics, running)
            raise _certain_failure(error) from error

    def _configure_agent(self, row: Row, agent_id: str, networks: Json, env: Json) -> None:
        """Give the agent its settings, on a CD beside the VM's own files or as guest information."""
        present, name, agent = row.get(_DEVICES), str(row.get("name")), self.settings.agent
        settings = devices.agent_settings(agent_id, name, row.ref._moId, networks, env, present, agent)
        if self.settings.agent_settings == "guestinfo":
            spec = sdk.vim.vm.ConfigSpec(extraConfig=devices.extra_config(devices.guestinfo(settings)))
        else:
            path = devices.cd_path(row.get(_VMX))
            self.client.put_file(self.inventory.datacenter.path, path, cd_image("env", settings))
            spec = sdk.vim.vm.ConfigSpec(deviceChange=[devices.insert_cd(present, path)])
        self.client.run(row.ref.ReconfigVM_Task, spec)

    def _undo(self, machine: Any, cause: CoterieError) -> list[Any] | None:
        """Remove the VM; the devices of one that runs, since another call finished it."""
        try:
            for row in self.client.read_existing([machine], sdk.vim.VirtualMachine, [_POWER, _DEVICES]):
                if row.get(_POWER) == "poweredOn":
                    return list(row.get(_DEVICES) or ())
            self._remove(machine)
            return None
        except CoterieError as error:
            raise OutcomeUnknown(
                "the VM failed and could not be removed",
                why=f"{cause}; then {error}",
                remedy="look for it by its mark and delete it",
            ) from error

    def _remove(self, machine: Any) -> None:
        """Off, out of its group, its persistent disks detached, and gone with its own files. Gone already is fine."""
        try:
            row = self.client.read(machine, _POWER, _VMX, _DEVICES, "customValue")
            present = row.get(_DEVICES) or []
            if row.get(_POWER) != "poweredOff":
                with tolerate("InvalidPowerState"):
                    self.client.run(machine.PowerOffVM_Task)
            attributes = self.attributes.by_name(row.get("customValue"))
            self.membership.leave(machine, attributes.get(GROUP), attributes.get(ZONE))
            self.disks.detach_persistent(machine)
            if devices.has_cd(present):
                self._delete_file(devices.cd_path(row.get(_VMX)))
            self.client.run(machine.Destroy_Task)
        except Refusal as refusal:
            if not refusal.is_a("ManagedObjectNotFound"):
                raise
            if self.client.read_existing([machine], sdk.vim.VirtualMachine, ["name"]):
                raise CpiError(
                    "something that the VM needs went away while it was removed",
                    why=refusal.what,
                    remedy="repeat",
                    retryable=True,
                ) from refusal

    def _delete_file(self, path: str) -> None:
        delete = self.client.content.fileManager.DeleteDatastoreFile_Task
        with tolerate("FileNotFound", "InvalidDatastorePath"):
            self.client.run(delete, path, self.inventory.datacenter.ref)

    def _objects(self, rows: Iterable[Row], director_uuid: str) -> list[CloudObject]:
        some = list(rows)
        hosts = self.inventory.host_names([row.get("runtime.host") for row in some])
        clusters = self.placement.clusters_of(some)
        return [self._vm(row, director_uuid, hosts, clusters.get(row.ref)) for row in some]

    def _vm(self, row: Row, director_uuid: str, hosts: dict[Any, str], cluster: ZoneCluster | None) -> CloudObject:
        name, uuid = str(row.get("name")), str(row.get("config.instanceUuid"))
        return CloudObject(
            "vm",
            uuid,
            name,
            created_at=created_at(row),
            mark=vm_mark(name, uuid, director_uuid),
            in_use_by=(),
            az=cluster.zone if cluster else None,
            state=_STATES.get(str(row.get(_POWER))),
            host=hosts.get(row.get("runtime.host")),
            tags=self.attributes.written_on(row),
        )


def _certain_failure(error: CoterieError) -> CoterieError:
    """The VM is proven gone, so an outcome that was in doubt is a plain failure now."""
    known = contract_error(error) if isinstance(error, Refusal) else error
    if not isinstance(known, OutcomeUnknown):
        return known
    return VMCreationFailed(known.what, why=known.why, remedy="repeat", retryable=True)
