"""The creation of a VM, from its arguments to a running VM with tags and public addresses, or to none at all. The order
of the steps is the kit's `create_vm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, NotSupported, OutcomeUnknown, VmCreated, VMCreationFailed
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import CAPACITY, INTERNAL, PARAMETER, Client, Refusal, Row, read_tags
from coterie.cpi.drivers.cloudstack.disks import LocalStorage, device_path
from coterie.cpi.drivers.cloudstack.marks import VIP, mark_of, mark_tags, user_tags
from coterie.cpi.drivers.cloudstack.networks import PublicAddresses
from coterie.cpi.drivers.cloudstack.properties import NETWORK, Settings, VmSpec, read_vm_spec
from coterie.cpi.drivers.cloudstack.server_groups import Groups
from coterie.cpi.drivers.cloudstack.stemcells import Templates
from coterie.cpi.drivers.cloudstack.vms import RELEASED, Vms, ephemeral_name
from coterie.cpi.kit.agent_settings import AgentSettings, agent_networks, base64_text, compact_json
from coterie.cpi.kit.calls import translate
from coterie.cpi.kit.create_vm import (
    CreateVmArgs,
    CreateVmCall,
    NetworkRequest,
    Undo,
    answer_networks,
    chosen_mac,
    create_vm,
)
from coterie.cpi.kit.disks import gib
from coterie.cpi.kit.key_pairs import KeyPairs, read_public_half
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.ids import Ids
from coterie.slotted import dataclass

_GONE = ("Destroyed", "Expunging")
_FAILED_START = (INTERNAL, 534)  # refusals of a host, not of the request
_USERDATA_PATH = "/latest/user-data"
_CONFIG_DRIVE = {"type": "config-drive", "path": "/cloudstack/userdata/user_data.txt"}
_ROUTER, _DRIVE = "VirtualRouter", "ConfigDrive"


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    catalog: Catalog
    templates: Templates
    local_storage: LocalStorage
    groups: Groups
    addresses: PublicAddresses
    key_pairs: KeyPairs
    vms: Vms

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        vm = create_vm(CloudstackVmCreation(self, args))
        nics = sorted(vm.get("nic") or (), key=lambda nic: int(nic.get("deviceid") or 0))
        given = {
            request.label: (nic.get("ipaddress"), nic.get("macaddress"))
            for request, nic in zip(args.nics, nics, strict=False)
        }
        disks = _own_disks(self.client.settings, args.spec)
        return VmCreated(str(vm["id"]), answer_networks(args.networks, given), disks)


class CloudstackVmCreation:
    """The steps of one create_vm; fills the kit's `VmCreation`. `Json`: the parameters of the deploy."""

    def __init__(self, parts: VmFactory, args: CreateVmArgs[VmSpec]) -> None:
        self._parts = parts
        self._args = args
        self._key_pair: str | None = None

    @cached_property
    def _membership(self) -> Membership | None:
        return self._parts.groups.server.membership(self._args.env)

    # -- find what an earlier call began --

    def find_existing(self) -> Row | None:
        """The VM of this mark. One that a failed deploy left in state Error is removed first. One that is Starting is
        another call's job: `boot` joins it."""
        rows = self._rows_of_mark()
        self._remove_broken(rows)
        return next((row for row in rows if row.get("state") not in ("Error", "Starting")), None)

    def _rows_of_mark(self) -> list[Row]:
        mark = self._args.mark
        rows = self._parts.client.list_all("listVirtualMachines", name=mark.name())
        return [row for row in rows if mark_of(row, mark.director) == mark and row.get("state") not in _GONE]

    def _remove_broken(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.get("state") == "Error":
                self._parts.vms.delete(str(row["id"]))

    # -- resolve, and refuse all that can be refused --

    def resolve(self) -> Json:
        args, parts = self._args, self._parts
        _refuse_group_by_nic(args.nics)
        groups = self._groups()
        zone = parts.catalog.zone(args.spec.zone)
        networks = [parts.catalog.network(_network_name(nic.properties), zone) for nic in args.nics]
        name = self._vm_name()
        parameters = {
            "zoneid": zone["id"],
            "templateid": parts.templates.require_ready(args.stemcell_cid, zone),
            "name": name,
            "iptonetworklist": self._nics(name, networks),
            "hostid": parts.local_storage.host_of_disks(args.disk_cids),
            "userdata": self._userdata(name, networks),
            **self._size(),
            **groups,
        }
        if parts.client.settings.check_addresses:
            for network, nic in zip(networks, args.nics, strict=True):
                self._require_free_address(name, network, nic.ip)
        return parameters

    def _vm_name(self) -> str:
        """Without the right to expunge, the name of a failed VM stays taken for a day: so every try has its own."""
        mark = self._args.mark
        return mark.name() if self._parts.catalog.may_expunge() else mark.name(Ids().uuid()[:8])

    def _nics(self, name: str, networks: Sequence[Row]) -> list[Json] | None:
        macs = self._macs(name)
        entries = (
            {"networkid": row["id"], "ip": nic.ip, "mac": macs[nic.label]}
            for row, nic in zip(networks, self._args.nics, strict=True)
        )
        return [{key: value for key, value in entry.items() if value} for entry in entries] or None

    def _macs(self, name: str) -> dict[str, str | None]:
        """Of two NICs we choose the MACs, so that the agent's settings can name them: they are written before
        CloudStack would choose. One NIC needs none."""
        labels = [nic.label for nic in self._args.nics]
        return {label: chosen_mac(name, number) if len(labels) > 1 else None for number, label in enumerate(labels)}

    def _size(self) -> Json:
        spec, catalog = self._args.spec, self._parts.catalog
        offering = catalog.compute_offering(spec.compute_offering)
        disk = catalog.disk_offering(spec.ephemeral_disk_offering) if spec.ephemeral_disk_offering else {}
        details = dict(spec.details)
        if offering.get("iscustomized"):
            details |= {"cpuNumber": str(spec.cpu or 1), "memory": str(spec.ram_mb or 1024)}
            details |= {"cpuSpeed": str(spec.cpu_speed)} if spec.cpu_speed else {}
        return {
            "serviceofferingid": offering["id"],
            "details": [details] if details else None,
            "rootdisksize": gib(spec.root_disk_size) if spec.root_disk_size else None,
            "diskofferingid": disk.get("id"),
            "size": gib(spec.disk or 1) if disk.get("iscustomized") else None,
        }

    def _groups(self) -> Json:
        spec, parts, membership = self._args.spec, self._parts, self._membership
        affinity_groups = [membership.group] if membership and membership.group else []
        affinity_groups += [parts.groups.affinity.require_named(name) for name in spec.affinity_groups]
        security_groups = [
            *(membership.security_groups if membership else ()),
            *parts.groups.security.require_existing(spec.security_groups),
        ]
        return {
            "affinitygroupids": affinity_groups or None,
            "securitygroupids": list(dict.fromkeys(security_groups)) or None,
        }

    def _userdata(self, name: str, networks: Sequence[Row]) -> str:
        args, settings = self._args, self._parts.client.settings
        keys = [*settings.ssh_public_keys, read_public_half(settings.private_key), args.spec.public_key]
        document = AgentSettings(
            agent_id=args.agent_id,
            vm_name=name,
            networks=agent_networks(args.networks, self._macs(name), use_dhcp=True),
            requested_networks=args.networks,
            disks=_own_disks(settings, args.spec),
            env=args.env,
            keys=list(dict.fromkeys(key for key in keys if key)),
            cloud=settings.agent,
            more={"userdata_sources": self._userdata_sources(networks)},
        ).document()
        raw = compact_json(document)
        if len(raw) > settings.userdata_limit:
            raise InvalidCall(
                f"the agent's settings have {len(raw)} bytes, CloudStack takes {settings.userdata_limit}",
                remedy="shorten env, or raise vm.userdata.max.length there and properties.userdata_limit here",
            )
        return base64_text(raw)

    def _userdata_sources(self, networks: Sequence[Row]) -> list[dict[str, str]]:
        """Where the agent can read its settings, best first: by the name that routers answer to, at a router itself, at
        the DHCP server; or on a drive, where a network gives no userdata otherwise."""
        routed = [row for row in networks if _userdata_provider(row) != _DRIVE]
        if networks and not routed:
            return [_CONFIG_DRIVE]
        hosts = ["data-server.", *filter(None, map(self._router, routed))]
        found = [{"type": "http", "url": f"http://{host}{_USERDATA_PATH}"} for host in hosts]
        found.append({"type": "dhcp-server", "path": _USERDATA_PATH})
        return [*found, _CONFIG_DRIVE] if len(routed) < len(networks) else found

    def _router(self, network: Row) -> str | None:
        """An isolated network's router is its gateway; only administrators see which machine serves a shared one."""
        if network.get("type") == "Isolated":
            return network.get("gateway")
        if not self._parts.client.settings.host_visibility:
            return None
        try:
            rows, _ = self._parts.client.page("listRouters", networkid=network["id"], listall=True)
        except Refusal:
            return None  # the agent still finds it by its DHCP server
        return next((str(row["guestipaddress"]) for row in rows if row.get("guestipaddress")), None)

    def _require_free_address(self, name: str, network: Row, ip: str | None) -> None:
        """A VM of this name may have it: another call may be creating it under this mark."""
        rows = self._parts.client.list_all("listVirtualMachines", networkid=network["id"]) if ip else ()
        for row in rows:
            if row.get("name") == name or ip not in [nic.get("ipaddress") for nic in row.get("nic") or ()]:
                continue
            state = str(row.get("state"))
            is_leaving = state in ("Destroyed", "Expunging", "Error")
            raise VMCreationFailed(
                f"address {ip} of network {network['name']} is taken",
                why=f"VM {row['id']} ({row.get('name')}) has it, in state {state}",
                remedy="expunge that VM, or wait until CloudStack does" if is_leaving else "use another address",
                retryable=is_leaving,
            )

    # -- create --

    def prepare(self, resolved: Json, undo: Undo) -> None:
        spec = self._args.spec
        self._key_pair = self._parts.key_pairs.ensure(spec.public_key, spec.key_name, self._args.mark)
        undo.add(lambda: self._parts.key_pairs.release(self._key_pair))

    def boot(self, resolved: Json, undo: Undo) -> Row:
        """A running VM. One that another call created under the same mark is answered, and never undone."""
        vm, is_own = self._start(resolved, undo)
        if not is_own:
            undo.clear()
            return vm
        cid = str(vm["id"])
        undo.add(lambda: self._parts.vms.delete(cid, self._chosen_addresses()))
        try:
            self._name_ephemeral_disk(cid)
            result = self._parts.client.wait("deployVirtualMachine", str(vm["jobid"]))
        except Refusal as error:
            raise _explain_failure(error, "start") from error
        created: Row = result["virtualmachine"]
        self._parts.groups.affinity.require_membership(created, self._membership)
        return created

    def _start(self, resolved: Json, undo: Undo) -> tuple[Row, bool]:
        """Begin the deploy, or follow the one that another call began."""
        try:
            try:
                return self._deploy(resolved)
            except Refusal as error:
                if not self._restore_key_pair(error):
                    raise
                return self._deploy(resolved)
        except Refusal as error:
            self._remove_broken(self._rows_of_mark())
            raise self._explain_refusal(error) from error
        except OutcomeUnknown:
            undo.clear()
            raise

    def _deploy(self, resolved: Json) -> tuple[Row, bool]:
        parameters = {**resolved, "keypair": self._key_pair}
        return self._parts.client.start_once(self._args.mark, "deployVirtualMachine", self._find_deployed, **parameters)

    def _restore_key_pair(self, error: Refusal) -> bool:
        """Whether the pair was gone: since `prepare` it was removed with the last VM that had the key."""
        key, mark, key_pairs = self._args.spec.public_key, self._args.mark, self._parts.key_pairs
        if error.errorcode != PARAMETER or not key or key_pairs.is_registered(key, mark):
            return False
        self._key_pair = key_pairs.ensure(key, None, mark)
        return True

    def _find_deployed(self, cid: str) -> Row | None:
        row = self._parts.vms.read(cid)
        return None if row is None or row.get("state") == "Error" else row

    def _name_ephemeral_disk(self, cid: str) -> None:
        """A deploy gives the disk that it brings a name of its own; our name is what makes it ours."""
        if self._args.spec.ephemeral_disk_offering:
            for row in self._parts.vms.data_disks(cid):
                name = ephemeral_name(self._args.mark, cid)
                self._parts.client.run("updateVolume", id=row["id"], name=name)

    def _explain_refusal(self, error: Refusal) -> CpiError:
        """For a deploy that was refused before there was a VM."""
        joined = self._membership if error.errorcode == PARAMETER else None
        if joined and joined.group and self._parts.groups.affinity.find(joined.cid) is None:
            return group_missing(joined.cid)
        if error.errorcode == CAPACITY:
            return VMCreationFailed(
                "CloudStack could not give the VM its addresses",
                why=error.why,
                remedy="use a free address; that of a destroyed VM is free when CloudStack expunges it",
            )
        return translate(error)

    # -- finish --

    def finish(self, vm: Row, undo: Undo) -> Row:
        """Tags and public addresses. Tags come first, since a deletion reads from them which addresses to give back: so
        a VM with our tags may lack addresses still."""
        mark = self._args.mark
        is_tagged = mark_tags(mark).items() <= read_tags(vm).items()
        try:
            if not is_tagged:
                self._tag(vm)
            for request in self._args.vips:
                self._parts.addresses.map(request, vm, mark)
        except CpiError as error:
            if undo.is_empty and not is_tagged and not error.retryable:
                # no call under this mark has finished it, and none can
                undo.add(lambda: self._parts.vms.delete(str(vm["id"]), self._chosen_addresses()))
            raise (_explain_failure(error, "finish") if isinstance(error, Refusal) else error) from error
        return vm

    def _tag(self, vm: Row) -> None:
        """Calls under one mark may tag at the same time: CloudStack refuses all but one, and all are content."""
        tags = self._tags()
        try:
            self._parts.client.set_tags("UserVm", vm, tags)
        except Refusal:
            again = self._parts.client.read("listVirtualMachines", str(vm["id"])) or {}
            if not tags.items() <= read_tags(again).items():
                raise

    def _tags(self) -> dict[str, str]:
        args, membership = self._args, self._membership
        vips = ",".join(str(request.ip) for request in args.vips)
        addresses = ",".join(self._chosen_addresses())
        return {
            **user_tags(args.spec.tags),
            **mark_tags(args.mark),
            **({GROUP: membership.cid} if membership else {}),
            **({VIP: vips} if vips else {}),
            **({} if self._parts.catalog.may_expunge() else {RELEASED: addresses or "none"}),
        }

    def _chosen_addresses(self) -> list[str]:
        return [nic.ip for nic in self._args.nics if nic.ip]


def _refuse_group_by_nic(nics: Sequence[NetworkRequest]) -> None:
    taken: dict[str, str] = {}
    for nic in nics:
        if nic.ip and ":" in nic.ip:
            raise NotSupported(
                f"networks.{nic.label}.ip is an IPv6 address",
                why="in CloudStack's networks a VM derives its IPv6 address by itself, from the router",
                remedy="leave this network out; a network of CloudStack with IPv6 gives the VM both addresses",
            )
        if nic.nic_group and nic.nic_group in taken:
            raise NotSupported(
                f"networks.{nic.label}.nic_group is shared with network {taken[nic.nic_group]}",
                why="CloudStack creates a NIC with one IPv4 address, in one network",
                remedy="give each network a nic_group of its own, or none",
            )
        if nic.nic_group:
            taken[nic.nic_group] = nic.label


def _own_disks(settings: Settings, spec: VmSpec) -> Json:
    """The disks that a VM is born with."""
    ephemeral = device_path(settings.hypervisor, 1) if spec.ephemeral_disk_offering else None
    return {"system": device_path(settings.hypervisor, 0), "ephemeral": ephemeral}


def _network_name(properties: Mapping[str, Any]) -> str | None:
    return properties.get("id") or properties.get("name")


def _userdata_provider(network: Row) -> str:
    for service in network.get("service") or ():
        if service.get("name") == "UserData":
            return next((str(one.get("name")) for one in service.get("provider") or ()), _ROUTER)
    return _ROUTER


def _explain_failure(error: Refusal, verb: str) -> CpiError:
    if error.errorcode not in _FAILED_START:
        return translate(error)
    return VMCreationFailed(
        f"CloudStack could not {verb} the VM ({error.errorcode})",
        why=error.why,
        remedy="repeat; if it happens again, look at the host in CloudStack",
        retryable=True,
    )
