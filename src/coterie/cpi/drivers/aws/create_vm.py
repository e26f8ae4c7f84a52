"""Creating a VM: one RunInstances carries the instance, its network interfaces, its disks and the mark, under the
mark's intent as client token. There is nothing to orphan, and a repeat answers the first instance.

A repeat must be the same request, so everything in it comes from the arguments, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    InvalidCall,
    Json,
    StemcellNotFound,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, look_before_failing, require_first
from coterie.cpi.drivers.aws.disks import volume_body
from coterie.cpi.drivers.aws.machines import Machines, ended
from coterie.cpi.drivers.aws.networks import associate_address, require_address, require_leaving, require_subnet
from coterie.cpi.drivers.aws.properties import HOST_POLICY, NETWORK, VmSpec, VolumeSpec, read_vm_spec
from coterie.cpi.drivers.aws.server_groups import Groups
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
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.cpi.kit.waits import Overdue
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
Nic = tuple[str, list[NetworkRequest]]  # its subnet, and the networks that share it
_EPHEMERAL = "/dev/sdb"
_ADDRESS_S = 60.0  # for how long to wait for an address of a VM that is being terminated
_ROOT_GIB = 8  # of an image that does not tell
_USERDATA_LIMIT = 16 * 1024
OF_VM = "coterie-vm"  # on volumes and interfaces that come and go with a VM; it is no mark


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    groups: Groups
    machines: Machines

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        creation = _Creation(self, args)
        with look_before_failing(creation.find_live):
            row = create_vm(creation)
        disks = {"system": row.get("RootDeviceName"), "ephemeral": _EPHEMERAL if args.spec.ephemeral_disk else None}
        return VmCreated(str(row["InstanceId"]), _networks(args, row), disks)


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    def __init__(self, parts: VmFactory, args: Args) -> None:
        self._parts = parts
        self._args = args

    def find_existing(self) -> Row | None:
        """The token finds it: the same request is sent again."""
        return None

    def resolve(self) -> Json:
        """The request."""
        parts, args = self._parts, self._args
        membership = parts.groups.server.membership(args.env)
        image = self._image(args.stemcell_cid.split(" ")[0])
        nics = group_by_nic(args.nics, self._subnet_of, "subnet")
        zone = self._zone([require_subnet(parts.client, subnet) for subnet, _ in nics])
        for vip in args.vips:
            require_address(parts.client, str(vip.ip))
        return self._request(membership, image, nics, zone)

    def prepare(self, request: Json, undo: Undo) -> None:
        """RunInstances creates everything."""

    def boot(self, request: Json, undo: Undo) -> Row:
        parts, was_there = self._parts, self.find_live() is not None
        try:
            limit = min(_ADDRESS_S, parts.client.settings.state_timeout)
            what = "the release of its address by an instance that is being terminated"
            row = parts.client.waits.until(what, lambda: self._run(request), limit)
        except Overdue as error:
            raise VMCreationFailed(error.what, remedy="repeat in some minutes", retryable=True) from error
        cid = str(row["InstanceId"])
        if ec2.is_gone(row):
            raise self._spent(cid)
        parts.client.note_created(cid)
        if not was_there:
            undo.add(lambda: parts.machines.delete(cid))
        return parts.machines.wait_until_running(cid)

    def finish(self, row: Row, undo: Undo) -> Row:
        for vip in self._args.vips:
            associate_address(self._parts.client, str(vip.ip), row)
        return row

    def _run(self, request: Json) -> Row | None:
        """None: an address is still held by an instance of the past, and nothing was made."""
        try:
            answer = self._parts.client.change("run an instance", "run_instances", **request)
            row: Row = answer["Instances"][0]
            return row
        except Refusal as error:
            if error.is_one("InvalidIPAddress.InUse"):
                nics = request["NetworkInterfaces"]
                ips = [one["PrivateIpAddress"] for nic in nics for one in nic.get("PrivateIpAddresses") or ()]
                require_leaving(self._parts.client, [nic["SubnetId"] for nic in nics], ips)
                return None
            if error.is_one("InvalidPlacementGroup.Unknown"):
                raise group_missing(str((self._args.env.get("bosh") or {}).get("server_group_cid"))) from error
            return require_first(error, self.find_live)

    def find_live(self) -> Row | None:
        return ec2.find(self._parts.client, "vm", self._args.mark)

    def _spent(self, cid: str) -> VMCreationFailed:
        """The token answers its instance for as long as AWS remembers it, also after its end."""
        row = ec2.look(self._parts.client, "vm", cid)
        why = ended(row).why if row else "it is gone"
        return VMCreationFailed(
            f"instance {cid} of this mark was terminated", why=why, remedy="repeat under a new mark", retryable=True
        )

    def _request(self, membership: Membership | None, image: Row, nics: Sequence[Nic], zone: str) -> Json:
        args, spec, settings = self._args, self._args.spec, self._parts.client.settings
        profile = spec.iam_instance_profile or settings.default_iam_instance_profile
        key = spec.key_name or (None if spec.public_key else settings.default_key_name)
        tags = {**ec2.user_tags(spec.tags), **({GROUP: membership.cid} if membership else {})}
        belongs = {OF_VM: args.mark.name()}
        return {
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": args.mark.intent,
            "ImageId": image["ImageId"],
            "InstanceType": spec.instance_type,
            "UserData": _user_data(args, settings.agent),
            "Placement": self._placement(membership, zone),
            "NetworkInterfaces": [self._interface(n, *nic, membership) for n, nic in enumerate(nics)],
            "BlockDeviceMappings": self._devices(image),
            "MetadataOptions": _metadata_options({**settings.metadata_options, **spec.metadata_options}),
            "TagSpecifications": [
                *ec2.marked("instance", args.mark, **tags),
                *ec2.tagged("volume", belongs),
                *ec2.tagged("network-interface", belongs),
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

    def _interface(
        self, number: int, subnet: str, sharing: Sequence[NetworkRequest], membership: Membership | None
    ) -> Json:
        own = self._args.spec.security_groups or self._parts.client.settings.default_security_groups
        of_networks = [name for one in sharing for name in one.properties.get("security_groups", ())]
        named = [
            *(membership.security_groups if membership else ()),
            *self._parts.groups.security.require_existing((*own, *of_networks)),
        ]
        ips = [one.ip for one in sharing if one.ip]
        addresses = [{"PrivateIpAddress": ip, "Primary": n == 0} for n, ip in enumerate(ips)]
        return {
            "DeviceIndex": number,
            "SubnetId": subnet,
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
        row = ec2.look(self._parts.client, "image", wanted)
        if row is None:
            raise StemcellNotFound(f"image {wanted} is not in this region", remedy="upload the stemcell again")
        return row

    def _subnet_of(self, request: NetworkRequest) -> str:
        subnet = request.properties.get("subnet") or self._parts.client.settings.default_subnet
        if not subnet:
            raise InvalidCall(
                f"networks.{request.label}.cloud_properties.subnet is missing",
                remedy="name a subnet, or set properties.default_subnet",
            )
        return str(subnet)

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
            row = ec2.look(self._parts.client, "disk", disk)
            if row and row["AvailabilityZone"] != zone:
                raise InvalidCall(
                    f"disk {disk} is in {row['AvailabilityZone']}, the VM is wanted in {zone}",
                    remedy="put the VM into the disk's zone",
                )
        return zone


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


def _networks(args: Args, row: Row) -> Json:
    """With what EC2 gave: networks that share an interface have its addresses in their order."""
    given: dict[str, tuple[str | None, str | None]] = {}
    nics = sorted(row.get("NetworkInterfaces") or (), key=lambda nic: nic["Attachment"]["DeviceIndex"])
    requests = group_by_nic(args.nics, lambda request: None, "subnet")
    for nic, (_, sharing) in zip(nics, requests, strict=False):
        ips = [str(one["PrivateIpAddress"]) for one in nic.get("PrivateIpAddresses") or ()]
        for number, request in enumerate(sharing):
            chosen = ips[number] if number < len(ips) else nic.get("PrivateIpAddress")
            given[request.label] = request.ip if request.ip in ips else chosen, nic.get("MacAddress")
    return answer_networks(args.networks, given)
