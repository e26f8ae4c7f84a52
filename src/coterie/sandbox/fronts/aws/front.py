"""The actions of EC2 on one account of the datacenter. Client tokens are remembered, with the request that they came
with, also beyond the end of what they made; snapshots that are written block by block are kept here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.sandbox import (
    disks,
    images,
    networks,
    security_groups,
    server_groups,
    snapshots,
    vm_shape,
    vms,
)
from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.aws import rows
from coterie.sandbox.fronts.aws.refusals import NOT_FOUND, ApiError
from coterie.sandbox.fronts.aws.rows import ACCOUNT, DEFAULT_SUBNET, EVERYONE, VPC, Row, select
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.nics import NicRequest
from coterie.sandbox.pages import EVERYTHING, Filter
from coterie.sandbox.quotas import get_quotas
from coterie.sandbox.tags import set_tags

TYPES = {
    "t2.micro": (1, 512),
    "t3.nano": (1, 512),
    "t3.small": (2, 2048),
    "m5.xlarge": (4, 16_384),
    "c5.2xlarge": (8, 16_384),
    "m5.4xlarge": (16, 65_536),
    "u-24tb1.metal": (448, 24_000_000),
}
SPREAD_PER_AZ = 7
DEDICATED = "host-affinity"
REGION = "eu-central-1"
UNLIMITED = 1_000_000
_DISK_MB = 10_240


@dataclass
class Upload:
    """A snapshot that is written block by block."""

    started: float
    gib: int
    tags: Mapping[str, str]
    blocks: dict[int, bytes] = field(default_factory=dict)
    state: str = "pending"


class Front:
    """`account`: whose calls they are."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, str], tuple[str, str]] = {}  # (action, token) → (request, id)
        self._types: dict[str, str] = {}  # VM → its type
        self._failed: dict[str, tuple[str, str]] = {}  # VM that ended while it was starting → why
        self._partitions: dict[str, int] = {}  # placement group → how many it was made with
        self._permissions: dict[str, list[Row]] = {}  # image → who else may start it
        self._serial = 0
        self.uploads: dict[str, Upload] = {}
        self.addresses: dict[str, str | None] = {}  # elastic address → VM

    def run(self, action: str, given: Row) -> Row:
        if given.get("DryRun"):
            raise ApiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        method: Callable[[Row], Row] | None = getattr(self, f"do_{action}", None)
        if method is None:
            raise ApiError("InvalidAction", f"this front does not simulate {action}")
        return method(given)

    # -- instances --

    def do_RunInstances(self, given: Row) -> Row:
        token, placement = str(given.get("ClientToken") or ""), given.get("Placement") or {}
        known = self._replayed("RunInstances", given)
        if known is not None:
            found = [row for row in self._instances() if row["InstanceId"] == known]
            return {"Instances": found or [rows.terminated(known)]}
        if given["InstanceType"] not in TYPES:
            raise ApiError("InvalidParameterValue", f"Invalid value '{given['InstanceType']}' for InstanceType.")
        self._require_image(str(given["ImageId"]))
        group, zone = self._group(placement), str(placement.get("AvailabilityZone") or "")
        self._require_room(group, zone)
        nics = [
            NicRequest(f"{number}", self._network(nic["SubnetId"]), address.get("PrivateIpAddress"), f"eth{number}")
            for number, nic in enumerate(given.get("NetworkInterfaces") or ())
            for address in nic.get("PrivateIpAddresses") or [{}]
        ]
        cpu, ram = TYPES[given["InstanceType"]]
        made = vms.create_vm(
            self._account,
            name=token,
            size=Demand(cpu, ram, _DISK_MB, zone, self._rack(group, zone, placement.get("PartitionNumber"))),
            image=str(given["ImageId"]),
            nics=nics,
            group=group.id if group else None,
            security_groups=[one for nic in given.get("NetworkInterfaces") or () for one in nic.get("Groups") or ()],
            user_data=str(given.get("UserData") or ""),
            tags=_tags(given, "instance"),
            client_token=token or None,
        )
        self._types[made.id] = given["InstanceType"]
        self._remember("RunInstances", given, made.id)
        if made.state == "error":
            self._failed[made.id] = "Server.InternalError", "the host failed"
            vms.delete_vm(self._account, made.id)
            return {"Instances": [{**rows.terminated(made.id), "State": {"Code": 0, "Name": "pending"}}]}
        found = [row for row in self._instances([made]) if row["InstanceId"] == made.id]
        found[0]["State"] = {"Code": 0, "Name": "pending"}
        return {"Instances": found}

    def do_DescribeInstances(self, given: Row) -> Row:
        found = self._chosen("instance", "InstanceId", [*self._instances(), *self._ended()], given)
        page, token = page_of(found, given)
        return {"Reservations": [{"ReservationId": f"r-{r['InstanceId']}", "Instances": [r]} for r in page], **token}

    def do_TerminateInstances(self, given: Row) -> Row:
        for cid in given["InstanceIds"]:
            vms.delete_vm(self._account, cid)
        state = {"Code": 48, "Name": "terminated"}
        return {"TerminatingInstances": [{"InstanceId": cid, "CurrentState": state} for cid in given["InstanceIds"]]}

    def do_RebootInstances(self, given: Row) -> Row:
        for cid in given["InstanceIds"]:
            vms.reboot_vm(self._account, cid)
        return {}

    def do_StartInstances(self, given: Row) -> Row:
        for cid in given["InstanceIds"]:
            vms.start_vm(self._account, cid)
        return {"StartingInstances": []}

    def do_DescribeInstanceTypes(self, given: Row) -> Row:
        found = [
            {
                "InstanceType": name,
                "VCpuInfo": {"DefaultVCpus": cpu},
                "MemoryInfo": {"SizeInMiB": ram},
                "EbsInfo": {"NvmeSupport": "unsupported" if name.startswith("t2") else "required"},
                "BareMetal": name.endswith(".metal"),
            }
            for name, (cpu, ram) in TYPES.items()
            if name in (given.get("InstanceTypes") or TYPES)
        ]
        page, token = page_of(select("instance-type", found, given.get("Filters") or ()), given)
        return {"InstanceTypes": page, **token}

    # -- tags --

    def do_CreateTags(self, given: Row) -> Row:
        changes = {tag["Key"]: tag.get("Value", "") for tag in given["Tags"]}
        if any(key.startswith("aws:") for key in changes):
            raise ApiError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
        for cid in given["Resources"]:
            set_tags(self._account, cid, self._kind(cid), changes)
        return {}

    def do_DeleteTags(self, given: Row) -> Row:
        for cid in given["Resources"]:
            set_tags(self._account, cid, self._kind(cid), {tag["Key"]: None for tag in given.get("Tags") or ()})
        return {}

    # -- volumes and snapshots --

    def do_CreateVolume(self, given: Row) -> Row:
        known = self._replayed("CreateVolume", given)
        if known is not None:
            return rows.volume(disks.get_disk(self._account, known))
        made = disks.create_disk(
            self._account,
            name=str(given.get("ClientToken") or ""),
            size_mb=int(given["Size"]) * 1024,
            type=str(given.get("VolumeType") or "gp2"),
            zone=str(given["AvailabilityZone"]),
            tags=_tags(given, "volume"),
            client_token=given.get("ClientToken"),
        )
        self._remember("CreateVolume", given, made.id)
        return {**rows.volume(made), "State": "creating"}

    def do_DescribeVolumes(self, given: Row) -> Row:
        found = [rows.volume(one) for one in self._every(disks.list_disks)]
        page, token = page_of(self._chosen("volume", "VolumeId", found, given), given)
        return {"Volumes": page, **token}

    def do_AttachVolume(self, given: Row) -> Row:
        disk, vm = disks.get_disk(self._account, given["VolumeId"]), str(given["InstanceId"])
        if disk.vm:
            raise ApiError("VolumeInUse", f"{disk.id} is already attached to an instance")
        device = disks.attach_disk(self._account, disk.id, vm)
        return {"VolumeId": disk.id, "InstanceId": vm, "Device": device, "State": "attaching"}

    def do_DetachVolume(self, given: Row) -> Row:
        disk = disks.get_disk(self._account, given["VolumeId"])
        if not disk.vm:
            raise ApiError("IncorrectState", f"Volume '{disk.id}' is in the 'available' state.")
        disks.detach_disk(self._account, disk.id, disk.vm)
        return {"VolumeId": disk.id, "InstanceId": disk.vm, "State": "detaching"}

    def do_ModifyVolume(self, given: Row) -> Row:
        disk = disks.get_disk(self._account, given["VolumeId"])
        size_mb = int(given["Size"]) * 1024 if given.get("Size") else disk.size_mb
        disks.change_disk(self._account, disk.id, size_mb=size_mb, type=given.get("VolumeType"))
        return {"VolumeModification": {"VolumeId": disk.id, "ModificationState": "optimizing"}}

    def do_DescribeVolumesModifications(self, given: Row) -> Row:
        found = [{"VolumeId": one.id, "ModificationState": "optimizing"} for one in self._every(disks.list_disks)]
        return {"VolumesModifications": select("modification", found, given.get("Filters") or ())}

    def do_DeleteVolume(self, given: Row) -> Row:
        disks.delete_disk(self._account, given["VolumeId"])
        return {}

    def do_CreateSnapshot(self, given: Row) -> Row:
        """Without a token: a second call makes a second one."""
        made = snapshots.create_snapshot(
            self._account, given["VolumeId"], name=str(given.get("Description") or ""), tags=_tags(given, "snapshot")
        )
        return rows.snapshot_row(made.id, made.created_at, made.tags, "pending")

    def do_DescribeSnapshots(self, given: Row) -> Row:
        found = [rows.snapshot_row(one.id, one.created_at, one.tags) for one in self._every(snapshots.list_snapshots)]
        found += [rows.snapshot_row(cid, one.started, one.tags, one.state) for cid, one in self.uploads.items()]
        page, token = page_of(self._chosen("snapshot", "SnapshotId", found, given), given)
        return {"Snapshots": page, **token}

    def do_DeleteSnapshot(self, given: Row) -> Row:
        cid = str(given["SnapshotId"])
        users = [one.id for one in self._every(images.list_images) if one.properties.get("snapshot") == cid]
        if users:
            raise ApiError("InvalidSnapshot.InUse", f"The snapshot {cid} is currently in use by {users[0]}")
        if self.uploads.pop(cid, None) is None:
            snapshots.delete_snapshot(self._account, cid)
        return {}

    # -- images --

    def do_RegisterImage(self, given: Row) -> Row:
        mappings = given.get("BlockDeviceMappings") or [{}]
        snapshot, name = str((mappings[0].get("Ebs") or {}).get("SnapshotId")), str(given["Name"])
        if snapshot not in self.uploads or self.uploads[snapshot].state != "completed":
            raise ApiError("InvalidSnapshot.NotFound", f"The snapshot '{snapshot}' does not exist.")
        with self._lock:
            if any(one.name == name for one in self._every(images.list_images)):
                raise ApiError("InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI")
            upload = self.uploads[snapshot]
            properties = {"snapshot": snapshot, "size": upload.gib, "root": given.get("RootDeviceName", "/dev/sda1")}
            made = images.create_image(self._account, name=name, properties=properties, tags=_tags(given, "image"))
        return {"ImageId": made.id}

    def do_CopyImage(self, given: Row) -> Row:
        """What is in other regions is not known here: any id of theirs is good."""
        known = self._replayed("CopyImage", given)
        if known is not None:
            return {"ImageId": known}
        if given["SourceRegion"] == REGION:
            self._require_image(str(given["SourceImageId"]))
        with self._lock:
            snapshot = self._new_snapshot(8, _tags(given, "snapshot"))
        self.uploads[snapshot].state = "completed"
        properties = {"snapshot": snapshot, "size": 8, "encrypted": bool(given.get("Encrypted"))}
        made = images.create_image(
            self._account,
            name=str(given["Name"]),
            properties=properties,
            tags=_tags(given, "image"),
            client_token=given.get("ClientToken"),
        )
        self._remember("CopyImage", given, made.id)
        return {"ImageId": made.id}

    def do_DescribeImages(self, given: Row) -> Row:
        found = [rows.image(one) for one in self._every(images.list_images)]
        page, token = page_of(self._chosen("image", "ImageId", found, given), given)
        return {"Images": page, **token}

    def do_ModifyImageAttribute(self, given: Row) -> Row:
        self._require_image(str(given["ImageId"]))
        changes = given.get("LaunchPermission") or {}
        if not changes:
            raise ApiError("InvalidParameterValue", "this front changes launch permissions only")
        held = self._permissions.get(given["ImageId"], [])
        left = [one for one in held if one not in (changes.get("Remove") or ())]
        self._permissions[given["ImageId"]] = left + [one for one in changes.get("Add") or () if one not in left]
        return {}

    def do_DescribeImageAttribute(self, given: Row) -> Row:
        self._require_image(str(given["ImageId"]))
        if given["Attribute"] != "launchPermission":
            raise ApiError("InvalidParameterValue", "this front shows launch permissions only")
        return {"ImageId": given["ImageId"], "LaunchPermissions": self._permissions.get(given["ImageId"], [])}

    def do_DeregisterImage(self, given: Row) -> Row:
        images.delete_image(self._account, given["ImageId"])
        return {}

    # -- placement groups --

    def do_CreatePlacementGroup(self, given: Row) -> Row:
        name, strategy = str(given["GroupName"]), str(given.get("Strategy"))
        policies = {strategy: policy for policy, strategy in rows.STRATEGIES.items()}
        with self._lock:
            if any(one.name == name for one in self._every(server_groups.list_server_groups, Filter(name=name))):
                raise ApiError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
            made = server_groups.create_server_group(
                self._account, name=name, policy=policies[strategy], tags=_tags(given, "placement-group")
            )
        self._partitions[made.id] = int(given.get("PartitionCount") or 2)
        return {"PlacementGroup": rows.placement_group(made, self._partitions[made.id])}

    def do_DescribePlacementGroups(self, given: Row) -> Row:
        found = [
            rows.placement_group(one, self._partitions.get(one.id, 2))
            for one in self._every(server_groups.list_server_groups)
            if one.policy != DEDICATED
        ]
        named = self._chosen("placement-group", "GroupName", found, given)
        return {
            "PlacementGroups": self._chosen("placement-group", "GroupId", named, {"GroupIds": given.get("GroupIds")})
        }

    def do_DescribeHosts(self, given: Row) -> Row:
        """A dedicated host is a group that an operator ties to one host of the datacenter."""
        found = [
            rows.dedicated_host(one, host.zone, server_groups.read_members(self._account, one.id))
            for one in self._every(server_groups.list_server_groups)
            for host in list_hosts(self._account)
            if one.policy == DEDICATED and host.name in (one.allowed or ())
        ]
        page, token = page_of(self._chosen("host", "HostId", found, given), given)
        return {"Hosts": page, **token}

    def do_DeletePlacementGroup(self, given: Row) -> Row:
        """Refused while instances run; stopped members do not keep it, and they never start again."""
        group = self._group({"GroupName": given["GroupName"]})
        assert group is not None
        members = [vm for vm in self._every(vm_shape.list_vms) if group.id in vm.groups]
        if any(vm.state != "stopped" for vm in members):
            text = f"The placement group {group.name} is in use and may not be deleted."
            raise ApiError("InvalidPlacementGroup.InUse", text)
        server_groups.delete_server_group(self._account, group.id)
        return {}

    # -- security groups --

    def do_CreateSecurityGroup(self, given: Row) -> Row:
        """A new one lets everything out."""
        name = str(given["GroupName"])
        with self._lock:
            if any(one.name == name for one in self._every(security_groups.list_security_groups)):
                raise ApiError("InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{VPC}'")
            made = security_groups.create_security_group(
                self._account,
                name=name,
                rules=[{"direction": "egress", "entry": EVERYONE}],
                tags=_tags(given, "security-group"),
            )
        return {"GroupId": made.id}

    def do_DescribeSecurityGroups(self, given: Row) -> Row:
        found = [rows.security_group(one) for one in self._every(security_groups.list_security_groups)]
        page, token = page_of(self._chosen("security-group", "GroupId", found, given), given)
        return {"SecurityGroups": page, **token}

    def do_DeleteSecurityGroup(self, given: Row) -> Row:
        cid = str(given["GroupId"])
        for other in self._every(security_groups.list_security_groups):
            if other.id != cid and f'"{cid}"' in json.dumps(other.rules):
                raise ApiError("DependencyViolation", f"resource {cid} has a dependent object")
        security_groups.delete_security_group(self._account, cid)
        return {}

    def do_AuthorizeSecurityGroupIngress(self, given: Row) -> Row:
        return self._authorize("ingress", given)

    def do_AuthorizeSecurityGroupEgress(self, given: Row) -> Row:
        return self._authorize("egress", given)

    def do_RevokeSecurityGroupIngress(self, given: Row) -> Row:
        return self._revoke("ingress", given)

    def do_RevokeSecurityGroupEgress(self, given: Row) -> Row:
        return self._revoke("egress", given)

    def _authorize(self, direction: str, given: Row) -> Row:
        with self._lock:
            found = security_groups.get_security_group(self._account, given["GroupId"])
            added = [{"direction": direction, "entry": entry} for entry in given["IpPermissions"]]
            if any(one in found.rules for one in added):
                raise ApiError("InvalidPermission.Duplicate", "the specified rule already exists")
            security_groups.set_security_group_rules(self._account, found.id, [*found.rules, *added])
        return {"Return": True}

    def _revoke(self, direction: str, given: Row) -> Row:
        with self._lock:
            found = security_groups.get_security_group(self._account, given["GroupId"])
            gone = [{"direction": direction, "entry": entry} for entry in given["IpPermissions"]]
            if any(one not in found.rules for one in gone):
                raise ApiError(
                    "InvalidPermission.NotFound", "The specified rule does not exist in this security group."
                )
            left = [rule for rule in found.rules if rule not in gone]
            security_groups.set_security_group_rules(self._account, found.id, left)
        return {"Return": True}

    # -- networks --

    def do_DescribeNetworkInterfaces(self, given: Row) -> Row:
        found = [
            {**nic, "Attachment": {**nic["Attachment"], "InstanceId": vm.id}, "Status": "in-use"}
            for vm in self._every(vm_shape.list_vms)
            for nic in rows.interfaces(vm, self._default_network())
        ]
        page, token = page_of(self._chosen("network-interface", "NetworkInterfaceId", found, given), given)
        return {"NetworkInterfaces": page, **token}

    def do_ModifyNetworkInterfaceAttribute(self, given: Row) -> Row:
        vm = str(given["NetworkInterfaceId"]).removeprefix("eni-").rpartition("-")[0]
        vms.set_vm_security_groups(self._account, vm, given["Groups"])
        return {}

    def do_DescribeVpcs(self, given: Row) -> Row:
        return {"Vpcs": select("vpc", [{"VpcId": VPC, "IsDefault": True}], given.get("Filters") or ())}

    def do_DescribeSubnets(self, given: Row) -> Row:
        listed = list(self._every(networks.list_networks))
        zones = self._zones()
        found = [rows.subnet(one, zones[0]) for one in listed if one.range]
        found += [rows.subnet(listed[0], zone, f"{DEFAULT_SUBNET}{zone}") for zone in zones]
        page, token = page_of(self._chosen("subnet", "SubnetId", found, given), given)
        return {"Subnets": page, **token}

    def do_CreateSubnet(self, given: Row) -> Row:
        """AWS takes no token: the range makes it once."""
        cidr = str(given["CidrBlock"])
        with self._lock:
            if any(one.range == cidr for one in self._every(networks.list_networks)):
                raise ApiError("InvalidSubnet.Conflict", f"The CIDR '{cidr}' conflicts with another subnet")
            made = networks.create_network(
                self._account, name=f"subnet {cidr}", range=cidr, tags=_tags(given, "subnet")
            )
        return {"Subnet": rows.subnet(made, str(given.get("AvailabilityZone") or self._zones()[0]))}

    def do_DeleteSubnet(self, given: Row) -> Row:
        networks.delete_network(self._account, given["SubnetId"])
        return {}

    def do_DescribeAvailabilityZones(self, given: Row) -> Row:
        return {"AvailabilityZones": [{"ZoneName": zone, "State": "available"} for zone in self._zones()]}

    def do_DescribeAddresses(self, given: Row) -> Row:
        found = [
            {"PublicIp": ip, "AllocationId": f"eipalloc-{ip}", **({"InstanceId": vm} if vm else {})}
            for ip, vm in self.addresses.items()
        ]
        return {"Addresses": select("address", found, given.get("Filters") or ())}

    def do_AssociateAddress(self, given: Row) -> Row:
        ip = str(given["AllocationId"]).removeprefix("eipalloc-")
        vm = str(given["NetworkInterfaceId"]).removeprefix("eni-").rpartition("-")[0]
        if self.addresses.get(ip) not in (None, vm):
            raise ApiError("Resource.AlreadyAssociated", f"resource {ip} is already associated")
        self.addresses[ip] = vm
        return {"AssociationId": f"eipassoc-{ip}"}

    # -- EBS direct --

    def start_snapshot(self, given: Mapping[str, Any]) -> Row:
        known = self._replayed("StartSnapshot", given)
        if known is None or known not in self.uploads:
            tags = {tag["Key"]: tag.get("Value", "") for tag in given.get("Tags") or ()}
            with self._lock:
                known = self._new_snapshot(int(given["VolumeSize"]), tags)
            self._remember("StartSnapshot", given, known)
        return {"SnapshotId": known, "Status": self.uploads[known].state, "BlockSize": 524_288, "OwnerId": ACCOUNT}

    def _new_snapshot(self, gib: int, tags: Mapping[str, str]) -> str:
        self._serial += 1
        cid = f"snap-{self._serial:017x}"
        self.uploads[cid] = Upload(self._account.datacenter.clock(), gib, tags)
        return cid

    def upload(self, cid: str) -> Upload:
        if cid not in self.uploads:
            raise ApiError("ResourceNotFoundException", f"The snapshot '{cid}' does not exist.", 404)
        return self.uploads[cid]

    def loose_uploads(self) -> list[str]:
        """Those that no image was made from."""
        used = {one.properties.get("snapshot") for one in self._every(images.list_images)}
        return [cid for cid in self.uploads if cid not in used]

    # -- service quotas --

    def service_quota(self, given: Mapping[str, Any]) -> Row:
        found = get_quotas(self._account)
        known = {("ec2", "L-1216C47A"): found["cpu"], ("vpc", "L-E79EC296"): found["security_groups"]}
        key = str(given.get("ServiceCode")), str(given.get("QuotaCode"))
        if key not in known:
            raise ApiError("NoSuchResourceException", f"there is no quota {key}")
        ceiling = known[key].ceiling
        return {"Quota": {"QuotaCode": key[1], "Value": float(UNLIMITED if ceiling is None else ceiling)}}

    # -- what the actions share --

    def _replayed(self, action: str, given: Mapping[str, Any]) -> str | None:
        """The id that this token was answered with first; another request under it is refused."""
        known = self._tokens.get((action, str(given.get("ClientToken"))))
        if known is None:
            return None
        if known[0] != json.dumps(given, sort_keys=True):
            raise ApiError("IdempotentParameterMismatch", "The client token was used with other parameters.")
        return known[1]

    def _remember(self, action: str, given: Mapping[str, Any], cid: str) -> None:
        if given.get("ClientToken"):
            self._tokens[action, str(given["ClientToken"])] = json.dumps(given, sort_keys=True), cid

    def _instances(self, more: list[vm_shape.Vm] | None = None) -> list[Row]:
        found = {vm.id: vm for vm in (*self._every(vm_shape.list_vms), *(more or ()))}
        groups = {one.id: one for one in self._every(server_groups.list_server_groups)}
        racks, default = self._rack_numbers(), self._default_network()
        held: dict[str, list[disks.Disk]] = {}
        for disk in self._every(disks.list_disks):
            held.setdefault(disk.vm or "", []).append(disk)
        return [
            rows.instance(vm, groups, racks, held.get(vm.id, []), self._types.get(vm.id, "t3.nano"), default)
            for vm in found.values()
        ]

    def _ended(self) -> list[Row]:
        """EC2 lists instances for a while after their end."""
        return [
            rows.terminated(cid, *self._failed.get(cid, ())) for cid in list(self._types) if not self._is_there(cid)
        ]

    def _is_there(self, cid: str) -> bool:
        try:
            vm_shape.get_vm(replace(self._account, operator=True), cid)
        except NoSuch:
            return False
        return True

    def _chosen(self, kind: str, key: str, found: list[Row], given: Row) -> list[Row]:
        """Those with the ids that are given, each of which must be there, and which pass the filters."""
        ids = given.get(f"{key}s")
        for cid in ids or ():
            if not any(row[key] == cid for row in found):
                raise ApiError(NOT_FOUND.get(kind, "InvalidParameterValue"), f"The {kind} '{cid}' does not exist")
        chosen = [row for row in found if not ids or row[key] in ids]
        return select(kind, chosen, given.get("Filters") or given.get("Filter") or ())

    def _require_image(self, cid: str) -> None:
        if not any(one.id == cid for one in self._every(images.list_images)):
            raise ApiError("InvalidAMIID.NotFound", f"The image id '[{cid}]' does not exist")

    def _require_room(self, group: server_groups.ServerGroup | None, zone: str) -> None:
        if group is None or rows.STRATEGIES.get(group.policy or "") != "spread":
            return
        held = [one for one in self._every(vm_shape.list_vms) if group.id in one.groups and one.zone == zone]
        if len(held) >= SPREAD_PER_AZ:
            text = f"The maximum number of running instances ({SPREAD_PER_AZ}) of this spread group is reached."
            raise ApiError("InsufficientInstanceCapacity", text, 500)

    def _group(self, placement: Mapping[str, Any]) -> server_groups.ServerGroup | None:
        name, cid, host = placement.get("GroupName"), placement.get("GroupId"), placement.get("HostId")
        if not name and not cid and not host:
            return None
        if host and (name or cid):
            raise ApiError("InvalidParameterCombination", "A dedicated host stands beside a placement group")
        listed: list[server_groups.ServerGroup] = self._every(server_groups.list_server_groups)
        for one in listed:
            if one.id == cid or one.name == name or rows.host_id(one) == host:
                return one
        if host:
            raise ApiError("InvalidHostID.NotFound", f"The host '{host}' does not exist.")
        raise ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name or cid}' is unknown.")

    def _rack(self, group: server_groups.ServerGroup | None, zone: str, partition: int | None) -> str | None:
        if partition is None:
            return None
        if group is None or rows.STRATEGIES.get(group.policy or "") != "partition":
            raise ApiError("InvalidParameterCombination", "PartitionNumber needs a partition placement group")
        racks = sorted({host.rack for host in list_hosts(self._account) if host.zone == zone})
        if partition > len(racks):
            raise ApiError("InsufficientInstanceCapacity", f"there is no capacity in partition {partition}", 500)
        return racks[partition - 1]

    def _rack_numbers(self) -> dict[str, int]:
        """Host → the number of its rack in its zone."""
        found: dict[str, list[str]] = {}
        hosts = list_hosts(self._account)
        for host in hosts:
            found.setdefault(host.zone, []).append(host.rack)
        return {host.name: sorted(set(found[host.zone])).index(host.rack) + 1 for host in hosts}

    def _zones(self) -> list[str]:
        return sorted({host.zone for host in list_hosts(self._account)})

    def _network(self, subnet: str) -> str:
        if subnet.removeprefix(DEFAULT_SUBNET) in self._zones():
            return self._default_network()
        return subnet

    def _default_network(self) -> str:
        return str(self._every(networks.list_networks)[0].id)

    def _kind(self, cid: str) -> str:
        kinds = {"vm": "vm", "disk": "disk", "snap": "snapshot", "img": "image", "sec": "security_group"}
        kinds |= {"grp": "server_group", "net": "network"}
        found = kinds.get(cid.partition("-")[0])
        if found is None:
            raise ApiError("InvalidID", f"The ID '{cid}' is not valid")
        return found

    def _every(self, listing: Callable[..., Any], only: Filter = EVERYTHING) -> list[Any]:
        found, after = [], None
        while True:
            page = listing(self._account, only, after)
            found += page.items
            after = page.next
            if after is None:
                return found


def _tags(given: Row, kind: str) -> dict[str, str]:
    specs = [one for one in given.get("TagSpecifications") or () if one.get("ResourceType") == kind]
    return {tag["Key"]: tag.get("Value", "") for one in specs for tag in one.get("Tags") or ()}


def page_of(found: list[Row], given: Row) -> tuple[list[Row], Row]:
    """By the position of the last row, as an opaque token."""
    if "MaxResults" not in given:
        return found, {}
    if not 5 <= int(given["MaxResults"]) <= 1000:
        raise ApiError("InvalidParameterValue", f"Value ({given['MaxResults']}) for parameter maxResults is invalid.")
    start = int(str(given.get("NextToken") or "0"))
    end = start + int(given["MaxResults"])
    return found[start:end], ({"NextToken": str(end)} if end < len(found) else {})
