"""Creating a VM: its NICs first, since only they take a static address, then the VM with its disks. All of them are
named by the mark, so that each request can be repeated, and whatever is left is found by name and deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus

from coterie.cpi.contract import (
    CpiError,
    InvalidCall,
    Json,
    NetworkNotFound,
    NoPlacement,
    OutcomeUnknown,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.azure.client import Client, Refusal, Row, provisioning_state
from coterie.cpi.drivers.azure.disks import SCSI
from coterie.cpi.drivers.azure.machines import EPHEMERAL, MOST_NICS, OS, Machines, fault_domain, power_of
from coterie.cpi.drivers.azure.properties import NETWORK, VmSpec, VolumeSpec, read_vm_spec
from coterie.cpi.drivers.azure.security_groups import LABEL
from coterie.cpi.drivers.azure.server_groups import Groups, carrier_of, placement
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.drivers.azure.tags import marked, moment, require_marked, user_tags
from coterie.cpi.kit.agent_settings import base64_text, dhcp_settings
from coterie.cpi.kit.calls import is_passing
from coterie.cpi.kit.create_once import remove_half_made
from coterie.cpi.kit.create_vm import (
    CreateVmArgs,
    CreateVmCall,
    NetworkRequest,
    Undo,
    answer_networks,
    create_vm,
    group_by_nic,
)
from coterie.cpi.kit.kept_policy import PlacedVm, require_kept_policy
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
_CUSTOM_DATA = 64 * 1024


@dataclass(frozen=True, slots=True)
class Resolved:
    """The requests; those of NICs by their names."""

    nics: Mapping[str, Row]
    vm: Row


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    groups: Groups
    machines: Machines
    stemcells: Stemcells
    parts: Parts

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        row = create_vm(_Creation(self, args))
        return VmCreated(str(row["name"]), self._networks(args), _disks(args))

    def _networks(self, args: Args) -> Json:
        """With what Azure gave: networks that share a NIC have its addresses in their order."""
        given: dict[str, tuple[str | None, str | None]] = {}
        for number, (_, sharing) in enumerate(group_by_nic(args.nics, lambda request: None, "subnet")):
            row = self.client.get("NIC", f"{args.mark.name()}-{number}") or {"properties": {}}
            mac = str(row["properties"].get("macAddress") or "").replace("-", ":").lower() or None
            configs = row["properties"].get("ipConfigurations") or ()
            for request, config in zip(sharing, configs, strict=False):
                given[request.label] = config["properties"].get("privateIPAddress"), mac
        return answer_networks(args.networks, given)


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    def __init__(self, parts: VmFactory, args: Args) -> None:
        self._parts = parts
        self._client = parts.client
        self._args = args
        self._name = args.mark.name()
        self._membership: Membership | None = None

    def find_existing(self) -> Row | None:
        """One that failed is removed, and proven gone, before it is made again."""
        row = self._parts.machines.read(self._name)
        if row is None:
            return None
        require_marked(row, self._args.mark)
        if provisioning_state(row) == "failed":
            self._parts.machines.delete(self._name)
            return None
        return self._wait_for_other()

    def resolve(self) -> Resolved:
        parts, args, spec = self._parts, self._args, self._args.spec
        membership = self._membership = parts.groups.server.membership(args.env)
        self._require_joinable()
        if membership and membership.policy == "anti-affinity" and membership.group:
            self._require_domain(membership)
        reference = parts.stemcells.reference(args.stemcell_cid)
        nics = self._nics()
        links = [
            {"id": self._client.id("NIC", name), "properties": {"primary": n == 0, "deleteOption": "Delete"}}
            for n, name in enumerate(nics)
        ]
        body: Row = {
            "tags": marked(args.mark, **user_tags(spec.tags), **({GROUP: membership.cid} if membership else {})),
            **({"zones": self._zones} if self._zones else {}),
            "properties": {
                "hardwareProfile": {"vmSize": spec.instance_type},
                "storageProfile": self._storage(reference),
                "osProfile": self._system(),
                "networkProfile": {"networkInterfaces": links},
                **(placement(self._client, membership.group) if membership and membership.group else {}),
            },
        }
        return Resolved(nics, body)

    def prepare(self, resolved: Resolved, undo: Undo) -> None:
        """A NIC is created under its name: one that a call with this mark left is taken over."""
        mark = self._args.mark
        for name, body in resolved.nics.items():
            row, remove = self._client.get("NIC", name), partial(self._parts.machines.delete_nic, name)
            if row is not None:
                require_marked(row, mark)
                undo.add(remove)
            create = partial(self._client.create, "NIC", name, body, remove)
            try:
                self._parts.parts.create(mark, "port", name, create, id_of=lambda made: str(made["name"]))
            except OutcomeUnknown:
                undo.clear()
                raise
            if row is None:
                undo.add(remove)

    def boot(self, resolved: Resolved, undo: Undo) -> Row:
        self._require_joinable()
        try:
            return self._boot(resolved, undo)
        except OutcomeUnknown:
            undo.clear()
            raise
        except Refusal as error:
            raise self._say_group(error) from error

    def _boot(self, resolved: Resolved, undo: Undo) -> Row:
        try:
            has_ended = self._client.begin_put("VM", self._name, resolved.vm)
        except Refusal as error:
            if error.http_status != HTTPStatus.PRECONDITION_FAILED:
                raise
            undo.clear()  # another call under this mark was faster, and its parts are its own
            return self._wait_for_other()
        undo.add(lambda: self._parts.machines.delete(self._name))
        return self._wait_until_placed(has_ended)

    def finish(self, row: Row, undo: Undo) -> Row:
        membership, domain = self._membership, fault_domain(row)
        if membership and not undo.is_empty and membership.policy == "anti-affinity" and domain is not None:
            waits, members = self._client.settings, partial(self._members, membership)
            require_kept_policy(_placed(row), membership, members, waits.state_timeout, waits.poll_s)
        return row

    def _wait_until_placed(self, has_ended: Callable[[], bool] = bool) -> Row:
        """Azure calls a VM done when its agent has answered, which may take long: a running one is enough. `has_ended`:
        raises where the creation has failed."""

        def look() -> Row | None:
            has_ended()
            try:
                row = self._parts.machines.read(self._name)
            except CpiError as error:
                if is_passing(error):
                    return None
                raise
            if row is not None:
                require_marked(row, self._args.mark)
            state = provisioning_state(row) if row else "gone"
            if row is None or state in ("failed", "deleting"):
                has_ended()  # it may have ended since, and says why
                raise VMCreationFailed(
                    f"VM {self._name} is {state}", why="its creation failed", remedy="repeat", retryable=True
                )
            return row if state == "succeeded" or power_of(row) == "running" else None

        return self._client.waits.until(f"VM {self._name} running", look)

    def _wait_for_other(self) -> Row:
        """For the VM that another call under this mark began: if it fails, it goes with its parts."""
        try:
            return self._wait_until_placed()
        except VMCreationFailed as error:
            raise remove_half_made(error, lambda: self._parts.machines.delete(self._name)) from error

    def _say_group(self, error: Refusal) -> CpiError:
        membership = self._membership
        if membership is None or membership.group is None:
            return error
        type_, name = carrier_of(membership.group)
        gone = error.is_one("InvalidResourceReference", "NotFound", "ResourceNotFound", "ParentResourceNotFound")
        if gone and name.lower() in error.why.lower():
            return group_missing(membership.cid, error.why)
        if error.kind is NoPlacement and type_ == "availability set":
            return self._say_sizes(error, name)
        return error

    def _say_sizes(self, error: Refusal, group: str) -> CpiError:
        """The first VM of an availability set ties it to a cluster, which has some sizes and not others."""
        try:
            sizes = self._parts.groups.sets.list_sizes(group)
        except CpiError:
            return error
        size = self._args.spec.instance_type
        if not sizes or size.lower() in {one.lower() for one in sizes}:
            return error
        return NoPlacement(
            f"the hardware of availability set {group} has no size {size}",
            why=f"{error.why}; it has {', '.join(sorted(sizes)[:20])}",
            remedy="use one of these sizes, or a new server group: the first VM of a set chooses its hardware",
        )

    @property
    def _zones(self) -> list[str]:
        zone = self._args.spec.availability_zone
        return [zone] if zone else []

    def _require_joinable(self) -> None:
        if self._membership and self._membership.group:
            self._parts.groups.sets.require_joinable(self._membership, self._zones)

    def _require_domain(self, membership: Membership) -> None:
        """Azure would put one more into a fault domain that has a member."""
        group = self._parts.groups.sets.find(membership.cid)
        count = int(group.row["properties"].get("platformFaultDomainCount") or 1) if group else 0
        if group and len(group.members) >= count and self._name not in group.members:
            raise NoPlacement(
                f"server group {membership.cid} takes {count} members",
                why=f"its availability set has {count} fault domains, and {len(group.members)} members",
                remedy="use fewer instances, soft-anti-affinity, or more fault_domains where the region has them",
            )

    def _members(self, membership: Membership) -> list[PlacedVm]:
        group = self._parts.groups.sets.find(membership.cid)
        rows = [self._parts.machines.read(name) for name in (group.members if group else ())]
        return [_placed(row) for row in rows if row is not None and fault_domain(row) is not None]

    # -- the requests --

    def _storage(self, reference: Row) -> Row:
        spec = self._args.spec
        root = spec.root_disk
        system: Row = {
            "name": f"{self._name}-{OS}",
            "createOption": "FromImage",
            "caching": spec.caching,
            "deleteOption": "Delete",
            "managedDisk": {"storageAccountType": (root or VolumeSpec(1)).type},
            **({"diskSizeGB": root.size} if root else {}),
        }
        if spec.ephemeral_disk is None:
            return {"imageReference": reference, "osDisk": system}
        ephemeral: Row = {
            "name": f"{self._name}-{EPHEMERAL}",
            "createOption": "Empty",
            "caching": "None",
            "deleteOption": "Delete",
            "managedDisk": {"storageAccountType": spec.ephemeral_disk.type},
            "diskSizeGB": spec.ephemeral_disk.size,
            "lun": 0,
        }
        return {"imageReference": reference, "osDisk": system, "dataDisks": [ephemeral]}

    def _system(self) -> Row:
        """The agent's settings are custom data, which no API gives back; user data can be read by all in the VM."""
        args, settings = self._args, self._client.settings
        raw = dhcp_settings(args, _disks(args), settings.agent, most=_CUSTOM_DATA, cloud="Azure")
        path = f"/home/{settings.ssh_user}/.ssh/authorized_keys"
        ssh = {"publicKeys": [{"path": path, "keyData": args.spec.public_key or settings.ssh_public_key}]}
        return {
            "computerName": self._name,
            "adminUsername": settings.ssh_user,
            "customData": base64_text(raw),
            "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": ssh},
        }

    def _nics(self) -> dict[str, Row]:
        """Public addresses are those of the first."""
        grouped, vips = group_by_nic(self._args.nics, self._subnet, "subnet"), self._args.vips
        if len(grouped) > MOST_NICS:
            raise InvalidCall(f"networks asks for {len(grouped)} NICs", remedy=f"give the VM at most {MOST_NICS}")
        if len(vips) > len(grouped[0][1]):
            raise InvalidCall(
                f"networks names {len(vips)} addresses of type vip, the first NIC takes {len(grouped[0][1])}",
                remedy="give the VM one for each address of its first NIC",
            )
        public = [self._public_address(str(vip.ip)) for vip in vips]
        return {
            f"{self._name}-{number}": self._nic(subnet, sharing, public if number == 0 else [])
            for number, (subnet, sharing) in enumerate(grouped)
        }

    def _nic(self, subnet: str, sharing: Sequence[NetworkRequest], public: Sequence[str]) -> Row:
        spec, client = self._args.spec, self._client
        security_group = self._security_group(sharing[-1])
        labels = [{"id": client.id(LABEL, one)} for one in self._labels(sharing[-1], security_group)]
        configs = []
        for number, request in enumerate(sharing):
            config: Row = {
                "subnet": {"id": subnet},
                "primary": number == 0,
                "privateIPAllocationMethod": "Static" if request.ip else "Dynamic",
                **({"privateIPAddress": request.ip} if request.ip else {}),
                **({"publicIPAddress": {"id": public[number]}} if number < len(public) else {}),
                **({"applicationSecurityGroups": labels} if labels else {}),
            }
            configs.append({"name": f"ip{number}", "properties": config})
        properties: Row = {
            "ipConfigurations": configs,
            **({"networkSecurityGroup": {"id": client.id("security group", security_group)}} if security_group else {}),
            **({"enableAcceleratedNetworking": True} if spec.accelerated_networking else {}),
            **({"enableIPForwarding": True} if spec.ip_forwarding else {}),
        }
        return {"tags": marked(self._args.mark), "properties": properties}

    def _subnet(self, request: NetworkRequest) -> str:
        given, settings = request.properties, self._client.settings
        network, subnet = given.get("virtual_network_name"), given.get("subnet_name")
        group = given.get("resource_group_name")
        if not (network and subnet):
            if not settings.default_subnet:
                raise InvalidCall(
                    f"networks.{request.label}.cloud_properties.subnet_name is missing",
                    remedy="name virtual_network_name and subnet_name, or set properties.default_subnet",
                )
            *groups, network, subnet = settings.default_subnet.split("/")
            group = groups[0] if groups else None
        found = f"{self._client.id('virtual network', network, group)}/subnets/{subnet}"
        if self._client.get_id(found) is None:
            raise NetworkNotFound(f"there is no subnet {subnet} in {network}", remedy="name a subnet that exists")
        return found

    def _security_group(self, request: NetworkRequest) -> str | None:
        """A NIC has one. That of the server group stands above the cloud's; a VM's own beside it is a contradiction."""
        own = request.properties.get("security_group") or self._args.spec.security_group
        of_group = next(iter(self._membership.security_groups), None) if self._membership else None
        if own and of_group:
            raise InvalidCall(
                f"security_group is {own}, and the server group has {of_group}",
                why="a NIC takes one network security group",
                remedy="name one of them only",
            )
        name = of_group or own or self._client.settings.default_security_group
        if name and self._client.get("security group", name) is None:
            raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
        return name

    def _labels(self, request: NetworkRequest, security_group: str | None) -> list[str]:
        """The application security groups that a NIC bears, that of its security group the last."""
        spec, default = self._args.spec, self._client.settings.default_application_security_groups
        named = (*request.properties.get("application_security_groups", ()), *spec.application_security_groups)
        for name in named or default:
            if self._client.get(LABEL, name) is None:
                raise CpiError(f"there is no application security group {name!r}", remedy="name one that exists")
        label = self._parts.groups.azure.label_of(security_group) if security_group else None
        return list(dict.fromkeys([*(named or default), *([label] if label else [])]))

    def _public_address(self, wanted: str) -> str:
        for row in self._client.list_type("public address"):
            if row["properties"].get("ipAddress") == wanted:
                return str(row["id"])
        raise CpiError(
            f"there is no public address {wanted}", remedy="make it in this resource group, Standard and Static"
        )


def _disks(args: Args) -> Json:
    """Where the agent finds them."""
    ephemeral = {"lun": "0", "host_device_id": SCSI} if args.spec.ephemeral_disk else None
    return {"system": "/dev/sda", "ephemeral": ephemeral}


def _placed(row: Row) -> PlacedVm:
    name, made = str(row["name"]).lower(), moment(row["properties"].get("timeCreated")) or 0.0
    return PlacedVm(name, f"fault domain {fault_domain(row)}", (f"{made:020.6f}", name), is_checked=False)
