"""Creating a VM: its NICs first, since only they take a static address, then the VM with its disks. All of them are
named by the mark, so that each request can be repeated, and whatever is left is found by name and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from coterie.cpi.contract import (
    CpiError,
    GroupMissing,
    InvalidCall,
    Json,
    NetworkNotFound,
    NoPlacement,
    OutcomeUnknown,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.azure.client import (
    ASG,
    IP,
    NETWORK,
    NIC,
    NSG,
    VM,
    Client,
    Refusal,
    Row,
    is_passing,
    remove_half_made,
)
from coterie.cpi.drivers.azure.disks import SCSI, require_marked
from coterie.cpi.drivers.azure.machines import EPHEMERAL, MOST_NICS, OS, Machines, fault_domain, power_of
from coterie.cpi.drivers.azure.properties import NETWORK as NETWORK_FORM
from coterie.cpi.drivers.azure.properties import VmSpec, VolumeSpec, read_vm_spec
from coterie.cpi.drivers.azure.server_groups import Groups, placement
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.drivers.azure.tags import marked, moment, user_tags
from coterie.cpi.kit.agent_settings import AgentSettings, base64_text, compact_json
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
from coterie.cpi.kit.server_groups import Membership
from coterie.cpi.kit.waits import Waits

Args = CreateVmArgs[VmSpec]
_CUSTOM_DATA = 64 * 1024
_SYSTEM = "/dev/sda"


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface: networks of one `nic_group` share it."""

    labels: tuple[str, ...]
    subnet: str
    ips: tuple[str | None, ...]
    security_group: str | None
    labels_of_rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    membership: Membership | None
    body: Row
    nics: Sequence[tuple[str, Row]]  # name, body


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    groups: Groups
    machines: Machines
    stemcells: Stemcells
    parts: Parts
    waits: Waits

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK_FORM)
        row = create_vm(_Creation(self, args))
        ephemeral = {"lun": "0", "host_device_id": SCSI} if args.spec.ephemeral_disk else None
        return VmCreated(str(row["name"]), self._networks(args), {"system": _SYSTEM, "ephemeral": ephemeral})

    def _networks(self, args: Args) -> Json:
        """With what Azure gave: networks that share a NIC have its addresses in their order."""
        given: dict[str, tuple[str | None, str | None]] = {}
        for number, (_, sharing) in enumerate(group_by_nic(args.nics, lambda request: None, "subnet")):
            row = self.client.get(NIC, f"{args.mark.name()}-{number}") or {"properties": {}}
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
        self._id = parts.client.id(VM, self._name)
        self._membership: Membership | None = None

    def find_existing(self) -> Row | None:
        """One that failed is removed, and proven gone, before it is made again."""
        row = self._parts.machines.read(self._name)
        if row is None:
            return None
        require_marked(row, self._args.mark)
        if str(row["properties"].get("provisioningState")).lower() == "failed":
            self._parts.machines.delete(self._name)
            return None
        return self._wait_for_other()

    def resolve(self) -> Resolved:
        parts, args, spec, settings = self._parts, self._args, self._args.spec, self._client.settings
        membership = self._membership = parts.groups.server.membership(args.env)
        self._require_joinable(membership)
        if membership and membership.policy == "anti-affinity" and membership.group:
            self._require_domain(membership)
        reference = parts.stemcells.reference(args.stemcell_cid)
        nics = self._read_nics(membership)
        tags = marked(args.mark, **user_tags(spec.tags), **({GROUP: membership.cid} if membership else {}))
        names = [f"{self._name}-{number}" for number in range(len(nics))]
        zones = {"zones": [spec.availability_zone]} if spec.availability_zone else {}
        body: Row = {
            "location": settings.location,
            "tags": tags,
            **zones,
            "properties": {
                "hardwareProfile": {"vmSize": spec.instance_type},
                "storageProfile": self._storage(reference),
                "osProfile": self._system(),
                "networkProfile": {
                    "networkInterfaces": [
                        {"id": self._client.id(NIC, name), "properties": {"primary": n == 0, "deleteOption": "Delete"}}
                        for n, name in enumerate(names)
                    ]
                },
                **(placement(self._client, membership.group) if membership and membership.group else {}),
            },
        }
        return Resolved(membership, body, [(name, self._nic(nic)) for name, nic in zip(names, nics, strict=True)])

    def prepare(self, resolved: Resolved, undo: Undo) -> None:
        """A NIC is created under its name: one that a call with this mark left is taken over."""
        mark = self._args.mark
        for name, body in resolved.nics:
            row, remove = self._client.get(NIC, name), partial(self._parts.machines.delete_nic, name)
            if row is not None:
                require_marked(row, mark)
                undo.add(remove)
            try:
                self._parts.parts.create(mark, "port", name, partial(self._put_nic, name, body), id_of=str)
            except OutcomeUnknown:
                undo.clear()
                raise
            if row is None:
                undo.add(remove)

    def _put_nic(self, name: str, body: Row) -> str:
        what, remove = f"create NIC {name}", partial(self._parts.machines.delete_nic, name)
        return str(self._client.put_or_remove(what, self._client.id(NIC, name), body, remove)["name"])

    def boot(self, resolved: Resolved, undo: Undo) -> Row:
        what = f"create VM {self._name}"
        self._require_joinable(resolved.membership)
        try:
            answer = self._client.begin_put(what, self._id, resolved.body)
        except OutcomeUnknown:
            undo.clear()
            raise
        except Refusal as error:
            if error.http_status == 412:  # another call under this mark was faster, and its parts are its own
                undo.clear()
                return self._wait_for_other()
            raise self._say_group(error, resolved.membership) from error
        undo.add(lambda: self._parts.machines.delete(self._name))
        try:
            return self._wait_until_placed(lambda: self._client.has_ended(what, answer, self._id))
        except OutcomeUnknown:
            undo.clear()
            raise
        except Refusal as error:
            raise self._say_group(error, resolved.membership) from error

    def finish(self, row: Row, undo: Undo) -> Row:
        membership, domain = self._membership, fault_domain(row)
        if membership and not undo.is_empty and membership.policy == "anti-affinity" and domain is not None:
            waits, placed = self._client.settings, self._placed(row)
            members = partial(self._members, membership)
            require_kept_policy(placed, membership, members, waits.state_timeout, waits.poll_s)
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
            state = str(row["properties"].get("provisioningState")).lower() if row else "gone"
            if row is None or state in ("failed", "deleting"):
                has_ended()  # it may have ended since, and says why
                raise VMCreationFailed(
                    f"VM {self._name} is {state}", why="its creation failed", remedy="repeat", retryable=True
                )
            return row if state == "succeeded" or power_of(row) == "running" else None

        return self._parts.waits.until(f"VM {self._name} running", look)

    def _wait_for_other(self) -> Row:
        """For the VM that another call under this mark began: if it fails, it goes with its parts."""
        try:
            return self._wait_until_placed()
        except VMCreationFailed as error:
            raise remove_half_made(error, self._remove) from error

    def _remove(self) -> None:
        row = self._parts.machines.read(self._name)
        if row is not None:
            require_marked(row, self._args.mark)
        self._parts.machines.delete(self._name)

    def _say_group(self, error: Refusal, membership: Membership | None) -> CpiError:
        gone = error.is_one("InvalidResourceReference", "NotFound", "ResourceNotFound", "ParentResourceNotFound")
        if gone and membership and membership.group and membership.group.lower() in error.why.lower():
            return GroupMissing(
                f"server group {membership.cid} is missing",
                why=error.why,
                remedy="deploy again so that the group is made anew",
            )
        if error.kind is NoPlacement and membership and membership.group and "." not in membership.group:
            return self._say_sizes(error, membership.group)
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

    def _require_joinable(self, membership: Membership | None) -> None:
        if membership and membership.group:
            zone = self._args.spec.availability_zone
            self._parts.groups.sets.require_joinable(membership, [zone] if zone else [])

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
        rows = [self._parts.machines.read(name) for name in self._member_names(membership)]
        return [self._placed(row) for row in rows if row is not None and fault_domain(row) is not None]

    def _member_names(self, membership: Membership) -> Sequence[str]:
        group = self._parts.groups.sets.find(membership.cid)
        return group.members if group else ()

    def _placed(self, row: Row) -> PlacedVm:
        name, made = str(row["name"]).lower(), moment(row["properties"].get("timeCreated")) or 0.0
        return PlacedVm(name, f"fault domain {fault_domain(row)}", (f"{made:020.6f}", name), is_checked=False)

    # -- the request --

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
        found: Row = {"imageReference": reference, "osDisk": system}
        if spec.ephemeral_disk:
            own = {"lun": 0, "name": f"{self._name}-{EPHEMERAL}", "createOption": "Empty", "deleteOption": "Delete"}
            kind = {"storageAccountType": spec.ephemeral_disk.type}
            found["dataDisks"] = [
                {**own, "diskSizeGB": spec.ephemeral_disk.size, "managedDisk": kind, "caching": "None"}
            ]
        return found

    def _system(self) -> Row:
        """The agent's settings are custom data, which no API gives back; user data can be read by all in the VM."""
        args, settings = self._args, self._client.settings
        key = args.spec.public_key or settings.ssh_public_key
        document = AgentSettings(
            agent_id=args.agent_id,
            vm_name=self._name,
            networks={label: {**spec, "use_dhcp": True} for label, spec in args.networks.items()},
            requested_networks=args.networks,
            disks={
                "system": _SYSTEM,
                "ephemeral": {"lun": "0", "host_device_id": SCSI} if args.spec.ephemeral_disk else None,
            },
            env=args.env,
            cloud=settings.agent,
        ).document()
        raw = compact_json(document)
        if len(raw) > _CUSTOM_DATA:
            remedy = "shorten env"
            raise InvalidCall(f"the agent's settings have {len(raw)} bytes, Azure takes {_CUSTOM_DATA}", remedy=remedy)
        path = f"/home/{settings.ssh_user}/.ssh/authorized_keys"
        ssh = {"publicKeys": [{"path": path, "keyData": key}]}
        return {
            "computerName": self._name,
            "adminUsername": settings.ssh_user,
            "customData": base64_text(raw),
            "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": ssh},
        }

    def _read_nics(self, membership: Membership | None) -> list[Nic]:
        nics = []
        for subnet, sharing in group_by_nic(self._args.nics, self._subnet, "subnet"):
            own = self._security_group(sharing[-1], membership)
            labels, ips = tuple(one.label for one in sharing), tuple(one.ip for one in sharing)
            nics.append(Nic(labels, subnet, ips, own, self._rule_labels(sharing[-1], own)))
        if len(nics) > MOST_NICS:
            raise InvalidCall(f"networks asks for {len(nics)} NICs", remedy=f"give the VM at most {MOST_NICS}")
        if len(self._args.vips) > len(nics[0].ips):
            raise InvalidCall(
                f"networks names {len(self._args.vips)} addresses of type vip, the first NIC takes {len(nics[0].ips)}",
                remedy="give the VM one for each address of its first NIC",
            )
        return nics

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
        found = f"{self._client.id(NETWORK, network, group)}/subnets/{subnet}"
        if self._client.get_id(found) is None:
            raise NetworkNotFound(f"there is no subnet {subnet} in {network}", remedy="name a subnet that exists")
        return found

    def _security_group(self, request: NetworkRequest, membership: Membership | None) -> str | None:
        """A NIC has one. That of the server group stands above the cloud's; a VM's own beside it is a contradiction."""
        own = request.properties.get("security_group") or self._args.spec.security_group
        of_group = membership.security_groups[0] if membership and membership.security_groups else None
        if own and of_group:
            raise InvalidCall(
                f"security_group is {own}, and the server group has {of_group}",
                why="a NIC takes one network security group",
                remedy="name one of them only",
            )
        name = of_group or own or self._client.settings.default_security_group
        if name and self._client.get(NSG, name) is None:
            raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
        return name

    def _rule_labels(self, request: NetworkRequest, security_group: str | None) -> tuple[str, ...]:
        spec, default = self._args.spec, self._client.settings.default_application_security_groups
        named = (*request.properties.get("application_security_groups", ()), *spec.application_security_groups)
        for name in named or default:
            if self._client.get(ASG, name) is None:
                raise CpiError(f"there is no application security group {name!r}", remedy="name one that exists")
        found = list(named or default)
        label = self._parts.groups.azure.label_of(security_group) if security_group else None
        if label:
            found.append(label)
        return tuple(dict.fromkeys(found))

    def _nic(self, nic: Nic) -> Row:
        spec, client = self._args.spec, self._client
        public = [self._public_address(str(vip.ip)) for vip in self._args.vips]
        labels = [{"id": client.id(ASG, one)} for one in nic.labels_of_rules]
        configs = []
        for number, ip in enumerate(nic.ips):
            how = {"privateIPAddress": ip, "privateIPAllocationMethod": "Static"} if ip else {}
            own = {**(how or {"privateIPAllocationMethod": "Dynamic"}), "subnet": {"id": nic.subnet}}
            if public and nic.labels[0] == self._args.nics[0].label and number < len(public):
                own["publicIPAddress"] = {"id": public[number]}
            extra = {"applicationSecurityGroups": labels} if labels else {}
            configs.append({"name": f"ip{number}", "properties": {**own, **extra, "primary": number == 0}})
        rest: Row = {"networkSecurityGroup": {"id": client.id(NSG, nic.security_group)}} if nic.security_group else {}
        rest |= {"enableAcceleratedNetworking": True} if spec.accelerated_networking else {}
        rest |= {"enableIPForwarding": True} if spec.ip_forwarding else {}
        tags = marked(self._args.mark)
        return {"location": client.settings.location, "tags": tags, "properties": {"ipConfigurations": configs, **rest}}

    def _public_address(self, wanted: str) -> str:
        for row in self._client.list_type(IP):
            if row["properties"].get("ipAddress") == wanted:
                return str(row["id"])
        raise CpiError(
            f"there is no public address {wanted}", remedy="make it in this resource group, Standard and Static"
        )
