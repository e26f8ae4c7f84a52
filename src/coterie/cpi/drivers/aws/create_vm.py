"""Creating a VM: one RunInstances carries the instance, its network interfaces, its disks and the mark, under the
mark's intent as client token. There is nothing to orphan, and a repeat answers the first instance.

A repeat must be the same request, so everything in it comes from the arguments, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    GroupMissing,
    InvalidCall,
    Json,
    NetworkNotFound,
    OutcomeUnknown,
    StemcellNotFound,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters, look_before_failing
from coterie.cpi.drivers.aws.disks import volume_body
from coterie.cpi.drivers.aws.machines import Machines, ended
from coterie.cpi.drivers.aws.networks import Addresses
from coterie.cpi.drivers.aws.properties import HOST_POLICY, NETWORK, VmSpec, VolumeSpec, read_vm_spec
from coterie.cpi.drivers.aws.server_groups import GONE, Groups, list_instances
from coterie.cpi.drivers.aws.tags import marked, of_mark, tagged, user_tags, with_mark
from coterie.cpi.kit.agent_settings import dhcp_settings
from coterie.cpi.kit.create_vm import (
    CreateVmArgs,
    CreateVmCall,
    NetworkRequest,
    Undo,
    answer_networks,
    create_vm,
    group_by_nic,
)
from coterie.cpi.kit.disks import gib
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.server_groups import Membership
from coterie.cpi.kit.waits import Overdue
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
_EPHEMERAL = "/dev/sdb"
_ADDRESS_S = 60.0  # for how long to wait for an address of a VM that is being terminated
_ROOT_GIB = 8  # of an image that does not tell
_USERDATA_LIMIT = 16 * 1024
OF_VM = "coterie-vm"  # on volumes and interfaces that come and go with a VM; it is no mark


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface: networks of one `nic_group` share it."""

    labels: tuple[str, ...]
    subnet: str
    ips: tuple[str, ...]
    security_groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    membership: Membership | None
    request: Json
    labels: Sequence[tuple[str, ...]]
    disks: Json


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    groups: Groups
    machines: Machines
    addresses: Addresses

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        creation = _Creation(self, args)
        with look_before_failing(creation.find_live):
            row, resolved = create_vm(creation)
        return VmCreated(str(row["InstanceId"]), _networks(args, row, resolved.labels), resolved.disks)


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    def __init__(self, parts: VmFactory, args: Args) -> None:
        self._parts = parts
        self._args = args

    def find_existing(self) -> tuple[Row, Resolved] | None:
        """The token finds it: the same request is sent again."""
        return None

    def resolve(self) -> Resolved:
        parts, args, spec = self._parts, self._args, self._args.spec
        membership = parts.groups.server.membership(args.env)
        image = self._image(args.stemcell_cid.split(" ")[0])
        nics = _read_nics(args.nics, parts.client.settings.default_subnet)
        zone = self._zone([self._subnet(nic.subnet) for nic in nics])
        for vip in args.vips:
            parts.addresses.require(str(vip.ip))
        return Resolved(
            membership,
            self._request(membership, image, nics, zone),
            [nic.labels for nic in nics],
            {"system": image["RootDeviceName"], "ephemeral": _EPHEMERAL if spec.ephemeral_disk else None},
        )

    def prepare(self, resolved: Resolved, undo: Undo) -> None:
        """RunInstances creates everything."""

    def boot(self, resolved: Resolved, undo: Undo) -> tuple[Row, Resolved]:
        parts, was_there = self._parts, self.find_live() is not None
        try:
            limit = min(_ADDRESS_S, parts.client.settings.state_timeout)
            what = "the release of its address by an instance that is being terminated"
            row = parts.machines.waits.until(what, lambda: self._run(resolved), limit)
        except Overdue as error:
            raise VMCreationFailed(error.what, remedy="repeat in some minutes", retryable=True) from error
        cid = str(row["InstanceId"])
        if row["State"]["Name"] in GONE:
            raise self._spent(cid)
        parts.client.note_created(cid)
        if not was_there:
            undo.add(lambda: parts.machines.delete(cid))
        return parts.machines.wait_until_running(cid), resolved

    def finish(self, vm: tuple[Row, Resolved], undo: Undo) -> tuple[Row, Resolved]:
        row, _resolved = vm
        for vip in self._args.vips:
            self._parts.addresses.associate(str(vip.ip), row)
        return vm

    def _run(self, resolved: Resolved) -> Row | None:
        """None: an address is still held by an instance of the past, and nothing was made."""
        try:
            answer = self._parts.client.change("run an instance", "run_instances", **resolved.request)
            row: Row = answer["Instances"][0]
            return row
        except Refusal as error:
            if error.is_one("InvalidIPAddress.InUse"):
                nics = resolved.request["NetworkInterfaces"]
                ips = [one["PrivateIpAddress"] for nic in nics for one in nic.get("PrivateIpAddresses") or ()]
                self._parts.addresses.require_leaving([nic["SubnetId"] for nic in nics], ips)
                return None
            return self._after_refusal(error, resolved.membership)

    def _after_refusal(self, error: Refusal, membership: Membership | None) -> Row:
        """A token that was used with another request: then its instance counts, if it can be seen."""
        if error.is_one("IdempotentParameterMismatch"):
            found = self.find_live()
            if found is not None:
                return found
            raise OutcomeUnknown(
                "the mark was used with another request, and its instance is not visible",
                why=error.why,
                remedy="look for it by its mark",
            ) from error
        if error.is_one("InvalidPlacementGroup.Unknown") and membership:
            raise GroupMissing(
                f"server group {membership.cid} is missing",
                why=error.why,
                remedy="deploy again so that the group is made anew",
            ) from error
        raise error

    def find_live(self) -> Row | None:
        rows = with_mark(list_instances(self._parts.client, of_mark(self._args.mark)), self._args.mark)
        return rows[0] if rows else None

    def _spent(self, cid: str) -> VMCreationFailed:
        """The token answers its instance for as long as AWS remembers it, also after its end."""
        row = self._parts.machines.read_any(cid)
        why = ended(row).why if row else "it is gone"
        return VMCreationFailed(
            f"instance {cid} of this mark was terminated", why=why, remedy="repeat under a new mark", retryable=True
        )

    def _request(self, membership: Membership | None, image: Row, nics: Sequence[Nic], zone: str) -> Json:
        args, spec, settings = self._args, self._args.spec, self._parts.client.settings
        profile = spec.iam_instance_profile or settings.default_iam_instance_profile
        key = spec.key_name or (None if spec.public_key else settings.default_key_name)
        tags = {**user_tags(spec.tags), **({GROUP: membership.cid} if membership else {})}
        belongs = {OF_VM: args.mark.name()}
        return {
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": args.mark.intent,
            "ImageId": image["ImageId"],
            "InstanceType": spec.instance_type,
            "UserData": _user_data(args, settings.agent),
            "Placement": self._placement(membership, zone),
            "NetworkInterfaces": [self._interface(n, nic, membership) for n, nic in enumerate(nics)],
            "BlockDeviceMappings": self._devices(image),
            "MetadataOptions": _metadata_options({**settings.metadata_options, **spec.metadata_options}),
            "TagSpecifications": [
                *marked("instance", args.mark, **tags),
                *tagged("volume", belongs),
                *tagged("network-interface", belongs),
            ],
            **({"KeyName": key} if key else {}),
            **({"IamInstanceProfile": _profile(profile)} if profile else {}),
        }

    def _placement(self, membership: Membership | None, zone: str) -> Json:
        found: Json = {"AvailabilityZone": zone}
        if self._args.spec.tenancy:
            found["Tenancy"] = self._args.spec.tenancy
        if membership and membership.group and membership.policy == HOST_POLICY:
            return {**found, **self._on_host(membership.group, zone)}
        if membership and membership.group:
            found["GroupId"] = membership.group
            number = (self._args.env.get("bosh") or {}).get("server_group_member")
            partitions = self._parts.groups.placement.partitions.get(membership.group)
            if number is not None and partitions:
                found["PartitionNumber"] = int(number) % partitions + 1
        return found

    def _on_host(self, host_id: str, zone: str) -> Json:
        host = self._parts.groups.placement.read_host(host_id)
        if host and host.get("AvailabilityZone") != zone:
            raise InvalidCall(
                f"dedicated host {host_id} is in {host.get('AvailabilityZone')}, the VM is wanted in {zone}",
                remedy="use a host of that zone, or put the instance group into the az of the host",
            )
        if self._args.spec.tenancy:
            raise InvalidCall(
                "cloud_properties.tenancy stands beside host-affinity", remedy="leave it out: the host says the tenancy"
            )
        return {"Tenancy": "host", "HostId": host_id, "Affinity": "host"}

    def _interface(self, number: int, nic: Nic, membership: Membership | None) -> Json:
        require = self._parts.groups.security.require_existing
        own = self._args.spec.security_groups or self._parts.client.settings.default_security_groups
        named = [*(membership.security_groups if membership else ()), *require((*own, *nic.security_groups))]
        addresses = [{"PrivateIpAddress": ip, "Primary": n == 0} for n, ip in enumerate(nic.ips)]
        return {
            "DeviceIndex": number,
            "SubnetId": nic.subnet,
            "DeleteOnTermination": True,
            **({"PrivateIpAddresses": addresses} if addresses else {}),
            **({"Groups": list(dict.fromkeys(named))} if named else {}),
        }

    def _devices(self, image: Row) -> list[Json]:
        spec, settings = self._args.spec, self._parts.client.settings
        name = str(image["RootDeviceName"])
        own = {str(m["DeviceName"]): m["Ebs"] for m in image.get("BlockDeviceMappings") or () if m.get("Ebs")}
        root = spec.root_disk or VolumeSpec(int(own.get(name, {}).get("VolumeSize") or _ROOT_GIB) * 1024)
        volumes = [(name, root)]
        if spec.ephemeral_disk:
            volumes.append((_EPHEMERAL, spec.ephemeral_disk))
        return [
            {
                "DeviceName": device,
                "Ebs": {"VolumeSize": gib(volume.size), "DeleteOnTermination": True, **volume_body(volume, settings)},
            }
            for device, volume in volumes
        ] + [
            {"DeviceName": device, "Ebs": {"DeleteOnTermination": True}}
            for device in sorted(own.keys() - dict(volumes).keys())
        ]

    def _image(self, wanted: str) -> Row:
        rows = self._parts.client.ask("read the image", "describe_images", Filters=filters(image_id=wanted))["Images"]
        found: Row | None = next((row for row in rows if row["ImageId"] == wanted), None)
        if found is None:
            raise StemcellNotFound(f"image {wanted} is not in this region", remedy="upload the stemcell again")
        return found

    def _subnet(self, wanted: str) -> Row:
        rows = self._parts.client.ask("read the subnet", "describe_subnets", Filters=filters(subnet_id=wanted))
        found: Row | None = next((row for row in rows["Subnets"] if row["SubnetId"] == wanted), None)
        if found is None:
            raise NetworkNotFound(f"there is no subnet {wanted}", remedy="name a subnet of this region")
        return found

    def _zone(self, subnets: Sequence[Row]) -> str:
        """A subnet lies in one zone, and so does a disk."""
        wanted = self._args.spec.availability_zone or self._parts.client.settings.default_availability_zone
        zones = {str(row["AvailabilityZone"]): str(row["SubnetId"]) for row in subnets}
        zone = wanted or next(iter(zones))
        for other, subnet in zones.items():
            if other != zone:
                raise InvalidCall(
                    f"subnet {subnet} is in {other}, the VM is wanted in {zone}",
                    remedy="name a subnet of that zone under the az of the network",
                )
        for disk in self._args.disk_cids:
            rows = self._parts.client.ask("read a disk", "describe_volumes", Filters=filters(volume_id=disk))["Volumes"]
            if rows and rows[0]["AvailabilityZone"] != zone:
                raise InvalidCall(
                    f"disk {disk} is in {rows[0]['AvailabilityZone']}, the VM is wanted in {zone}",
                    remedy="put the VM into the disk's zone",
                )
        return zone


def _read_nics(requests: Sequence[NetworkRequest], default_subnet: str | None) -> list[Nic]:
    def subnet_of(request: NetworkRequest) -> str:
        subnet = request.properties.get("subnet") or default_subnet
        if not subnet:
            raise InvalidCall(
                f"networks.{request.label}.cloud_properties.subnet is missing",
                remedy="name a subnet, or set properties.default_subnet",
            )
        return str(subnet)

    return [
        Nic(
            tuple(one.label for one in sharing),
            subnet,
            tuple(one.ip for one in sharing if one.ip),
            tuple(dict.fromkeys(each for one in sharing for each in one.properties.get("security_groups", ()))),
        )
        for subnet, sharing in group_by_nic(requests, subnet_of, "subnet")
    ]


def _user_data(args: Args, agent: Mapping[str, Any]) -> str:
    disks = {"system": "/dev/xvda", "ephemeral": _EPHEMERAL if args.spec.ephemeral_disk else None}
    keys = [args.spec.public_key] if args.spec.public_key else []
    return dhcp_settings(args, disks, agent, most=_USERDATA_LIMIT, cloud="EC2", keys=keys).decode()


def _metadata_options(given: Mapping[str, Any]) -> Json:
    """IMDSv2 only, where nothing else is said. `http_tokens` is written HttpTokens on the wire."""
    wanted = {"http_tokens": "required", "http_put_response_hop_limit": 1, "http_endpoint": "enabled", **given}
    return {"".join(word.capitalize() for word in key.split("_")): value for key, value in wanted.items()}


def _profile(name: str) -> dict[str, str]:
    return {"Arn": name} if name.startswith("arn:") else {"Name": name}


def _networks(args: Args, row: Row, labels: Sequence[tuple[str, ...]]) -> Json:
    """With what EC2 gave: networks that share an interface have its addresses in their order."""
    given: dict[str, tuple[str | None, str | None]] = {}
    nics = sorted(row.get("NetworkInterfaces") or (), key=lambda nic: nic["Attachment"]["DeviceIndex"])
    for nic, names in zip(nics, labels, strict=False):
        ips = [str(one["PrivateIpAddress"]) for one in nic.get("PrivateIpAddresses") or ()]
        for number, label in enumerate(names):
            wanted = args.networks[label].get("ip")
            ip = wanted if wanted in ips else (ips[number] if number < len(ips) else nic.get("PrivateIpAddress"))
            given[label] = ip, nic.get("MacAddress")
    return answer_networks(args.networks, given)
