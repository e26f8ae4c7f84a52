"""Objects of the datacenter as EC2 shows them, and the filters that each kind has."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from coterie.sandbox.disks import Disk
from coterie.sandbox.fronts.aws.refusals import ApiError
from coterie.sandbox.images import Image
from coterie.sandbox.networks import Network
from coterie.sandbox.security_groups import SecurityGroup
from coterie.sandbox.server_groups import ServerGroup
from coterie.sandbox.vm_shape import Vm

Row = dict[str, Any]
ACCOUNT = "123456789012"
VPC = "vpc-0123456789abcdef0"
DEFAULT_SUBNET = "subnet-"  # and the zone: the account's first network, once in each zone
STRATEGIES = {"anti-affinity": "spread", "soft-anti-affinity": "partition", "affinity": "cluster"}
_STATES = {
    "building": (0, "pending"),
    "running": (16, "running"),
    "stopped": (80, "stopped"),
    "error": (80, "stopped"),
}
EVERYONE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def tag_rows(tags: Mapping[str, str]) -> list[Row]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def instance(
    vm: Vm,
    groups: Mapping[str, ServerGroup],
    racks: Mapping[str, int],
    disks: Sequence[Disk],
    kind: str,
    default_network: str,
) -> Row:
    code, state = _STATES[vm.state]
    group = next((groups[one] for one in vm.groups if one in groups), None)
    placement: Row = {"AvailabilityZone": vm.zone, "Tenancy": "default"}
    if group and group.policy == "host-affinity":
        placement |= {"HostId": host_id(group), "Tenancy": "host", "Affinity": "host"}
    elif group:
        placement |= {"GroupName": group.name, "GroupId": group.id}
        if STRATEGIES.get(group.policy or "") == "partition" and vm.host and vm.host in racks:
            placement["PartitionNumber"] = racks[vm.host]
    mappings: list[Row] = [
        {"DeviceName": "/dev/xvda", "Ebs": _attached(f"vol-of-{vm.id}", vm.created_at, gone_with=True)}
    ]
    mappings += [{"DeviceName": d.device, "Ebs": _attached(d.id, vm.created_at, gone_with=False)} for d in disks]
    return {
        "InstanceId": vm.id,
        "ImageId": vm.image,
        "InstanceType": kind,
        "State": {"Code": code, "Name": state},
        "LaunchTime": vm.created_at,
        "Placement": placement,
        "VpcId": VPC,
        "RootDeviceName": "/dev/xvda",
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": mappings,
        "NetworkInterfaces": interfaces(vm, default_network),
        "CpuOptions": {"CoreCount": vm.cpu, "ThreadsPerCore": 1},
        "Tags": tag_rows(vm.tags),
    }


def terminated(cid: str, code: str = "Client.UserInitiatedShutdown", text: str = "User initiated shutdown") -> Row:
    reason = {"Code": code, "Message": f"{code}: {text}"}
    return {"InstanceId": cid, "State": {"Code": 48, "Name": "terminated"}, "StateReason": reason}


def interfaces(vm: Vm, default_network: str) -> list[Row]:
    """Addresses of one MAC are those of one interface. The default network is a subnet in each zone."""
    found: dict[str, Row] = {}
    for nic in vm.nics:
        key = nic.mac or ""
        number = len(found)
        row = found.setdefault(
            key,
            {
                "NetworkInterfaceId": f"eni-{vm.id}-{number}",
                "SubnetId": f"{DEFAULT_SUBNET}{vm.zone}" if nic.network == default_network else nic.network,
                "VpcId": VPC,
                "MacAddress": nic.mac,
                "PrivateIpAddress": nic.ip,
                "PrivateIpAddresses": [],
                "Groups": [{"GroupId": one} for one in vm.security_groups],
                "Attachment": {"DeviceIndex": number, "Status": "attached"},
            },
        )
        row["PrivateIpAddresses"].append({"PrivateIpAddress": nic.ip, "Primary": not row["PrivateIpAddresses"]})
    return list(found.values())


def volume(disk: Disk) -> Row:
    attached = [
        {"InstanceId": disk.vm, "VolumeId": disk.id, "Device": disk.device, "State": "attached"} for _ in [0] if disk.vm
    ]
    return {
        "VolumeId": disk.id,
        "Size": -(-disk.size_mb // 1024),
        "VolumeType": disk.type,
        "AvailabilityZone": disk.zone,
        "State": "in-use" if disk.vm else "available",
        "CreateTime": disk.created_at,
        "Attachments": attached,
        "Tags": tag_rows(disk.tags),
    }


def image(found: Image) -> Row:
    snapshot = found.properties.get("snapshot")
    ebs: Row = {"VolumeSize": int(found.properties.get("size", 1)), **({"SnapshotId": snapshot} if snapshot else {})}
    return {
        "ImageId": found.id,
        "Name": found.name,
        "State": "available",
        "OwnerId": ACCOUNT,
        "RootDeviceName": found.properties.get("root", "/dev/xvda"),
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": [{"DeviceName": found.properties.get("root", "/dev/xvda"), "Ebs": ebs}],
        "Tags": tag_rows(found.tags),
    }


def snapshot_row(cid: str, started: float, tags: Mapping[str, str], state: str = "completed") -> Row:
    return {"SnapshotId": cid, "State": state, "StartTime": started, "OwnerId": ACCOUNT, "Tags": tag_rows(tags)}


def host_id(group: ServerGroup) -> str:
    return f"h-{group.id}"


def dedicated_host(group: ServerGroup, zone: str, members: Sequence[str]) -> Row:
    return {
        "HostId": host_id(group),
        "AvailabilityZone": zone,
        "State": "available",
        "Instances": [{"InstanceId": vm} for vm in members],
        "Tags": tag_rows({"Name": group.name, **group.tags}),
    }


def placement_group(group: ServerGroup, partitions: int) -> Row:
    strategy = STRATEGIES.get(group.policy or "", "spread")
    row: Row = {
        "GroupName": group.name,
        "GroupId": group.id,
        "State": "available",
        "Strategy": strategy,
        "Tags": tag_rows(group.tags),
    }
    return {**row, "PartitionCount": partitions} if strategy == "partition" else row


def security_group(found: SecurityGroup) -> Row:
    return {
        "GroupId": found.id,
        "GroupName": found.name,
        "Description": "of the sandbox",
        "VpcId": VPC,
        "OwnerId": ACCOUNT,
        "IpPermissions": [rule["entry"] for rule in found.rules if rule.get("direction") == "ingress"],
        "IpPermissionsEgress": [rule["entry"] for rule in found.rules if rule.get("direction") == "egress"],
        "Tags": tag_rows(found.tags),
    }


def subnet(found: Network, zone: str, cid: str | None = None) -> Row:
    return {
        "SubnetId": cid or found.id,
        "VpcId": VPC,
        "AvailabilityZone": zone,
        "CidrBlock": found.range or "127.0.0.0/8",
        "State": "available",
        "Tags": tag_rows(found.tags),
    }


def _attached(cid: str, moment: float, *, gone_with: bool) -> Row:
    return {"VolumeId": cid, "AttachTime": moment, "DeleteOnTermination": gone_with, "Status": "attached"}


Values = Callable[[Row], Iterable[Any]]
FILTERS: Mapping[str, Mapping[str, Values]] = {
    "instance": {
        "instance-id": lambda row: [row["InstanceId"]],
        "image-id": lambda row: [row.get("ImageId")],
        "host-id": lambda row: [(row.get("Placement") or {}).get("HostId")],
        "placement-group-name": lambda row: [(row.get("Placement") or {}).get("GroupName")],
        "instance-state-name": lambda row: [row["State"]["Name"]],
    },
    "volume": {"volume-id": lambda row: [row["VolumeId"]]},
    "snapshot": {"snapshot-id": lambda row: [row["SnapshotId"]]},
    "image": {"image-id": lambda row: [row["ImageId"]], "name": lambda row: [row["Name"]]},
    "placement-group": {"group-name": lambda row: [row["GroupName"]]},
    "host": {"availability-zone": lambda row: [row["AvailabilityZone"]]},
    "security-group": {
        "group-id": lambda row: [row["GroupId"]],
        "group-name": lambda row: [row["GroupName"]],
        "vpc-id": lambda row: [row["VpcId"]],
    },
    "subnet": {"subnet-id": lambda row: [row["SubnetId"]], "vpc-id": lambda row: [row["VpcId"]]},
    "vpc": {"is-default": lambda row: ["true" if row.get("IsDefault") else "false"]},
    "network-interface": {
        "group-id": lambda row: [one["GroupId"] for one in row.get("Groups") or ()],
        "subnet-id": lambda row: [row["SubnetId"]],
        "addresses.private-ip-address": lambda row: [one["PrivateIpAddress"] for one in row["PrivateIpAddresses"]],
    },
    "address": {"public-ip": lambda row: [row["PublicIp"]]},
    "modification": {"volume-id": lambda row: [row["VolumeId"]]},
    "instance-type": {"current-generation": lambda row: ["true"]},
}


def select(kind: str, rows: Iterable[Row], filters: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Those that pass every filter; a filter that EC2 does not know is refused, never ignored."""
    found = list(rows)
    for one in filters:
        name, wanted = str(one["Name"]), [str(value) for value in one.get("Values") or ()]
        values = _values(kind, name)
        found = [
            row for row in found if any(fnmatch.fnmatchcase(str(has), value) for has in values(row) for value in wanted)
        ]
    return found


def _values(kind: str, name: str) -> Values:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda row: [tag["Value"] for tag in row.get("Tags") or () if tag["Key"] == key]
    if name not in FILTERS[kind]:
        raise ApiError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return FILTERS[kind][name]
