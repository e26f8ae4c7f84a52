"""Volumes and snapshots. A volume is made under a client token; a snapshot has none, so one writer makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, InvalidCall, Json, Mark
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, look_before_failing, require_first
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.properties import DiskSpec, Settings, VolumeSpec, read_disk_spec
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size
from coterie.slotted import dataclass

_LETTERS = "fghijklmnop"  # /dev/sd[f-p], which AWS recommends for volumes
_NVME = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"  # and the id: machines with NVMe have no /dev/sdf
_READY = ("available", "in-use")
_KEPT = ("pending", "completed")  # states of a snapshot: AWS keeps the moment, and copies later
_CHANGED = ("optimizing", "completed")  # states of a modification in which the volume has its new size
_NO_IDS = ("InvalidVolume.Malformed", "InvalidParameterValue")  # of what cannot be a volume


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    machines: Machines
    writer: SingleWriter[Refusal]

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        with look_before_failing(lambda: ec2.find(self.client, "disk", mark)):
            return self._create(size_mb, cloud_properties, vm_cid, mark)

    def _create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec, settings = read_disk_spec(cloud_properties), self.client.settings
        require_size(size_mb)
        zone = spec.availability_zone or self._zone_of(vm_cid) or settings.default_availability_zone
        if not zone:
            raise InvalidCall(
                "cloud_properties.availability_zone is missing", remedy="name it, or set default_availability_zone"
            )
        body: Json = {
            "AvailabilityZone": zone,
            "Size": gib(size_mb),
            "ClientToken": mark.intent,
            "TagSpecifications": ec2.marked("volume", mark),
            **volume_body(spec, settings),
        }
        try:
            row = self.client.change("create a volume", "create_volume", **body)
        except Refusal as error:
            row = require_first(error, lambda: ec2.find(self.client, "disk", mark))
        cid = str(row["VolumeId"])
        ec2.wait_for_new(self.client, "disk", cid, _READY, self.delete)
        return cid

    def require(self, cid: str) -> Row:
        row = ec2.read(self.client, "disk", cid)
        if row is None:
            raise disk_missing(cid[:80])
        return row

    def exists(self, cid: str) -> bool:
        return ec2.read(self.client, "disk", cid) is not None

    def delete(self, cid: str) -> None:
        """One that no list shows yet, which another process may have created just now, is deleted all the same; AWS
        itself deletes none that is attached."""
        row = ec2.look(self.client, "disk", cid)
        require_detached(cid, users(row) if row else ())
        if not self.client.delete(f"volume {cid}", "delete_volume", *_NO_IDS, VolumeId=cid) and row is None:
            self.client.require_settled(cid)
            return
        self.client.forget_created(cid)
        self.client.waits.until(f"the deletion of volume {cid}", lambda: None if self.exists(cid) else True)

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        machine, disk = self.machines.require(vm_cid), self.require(disk_cid)
        if vm_cid not in users(disk):
            require_detached(disk_cid, users(disk))
            self._attach(machine, vm_cid, disk_cid)

        def look_again() -> Row | None:
            found = [one for one in self.require(disk_cid).get("Attachments") or () if one["InstanceId"] == vm_cid]
            return found[0] if found and found[0]["State"] == "attached" else None

        device = str(self.client.waits.until(f"the attachment of disk {disk_cid}", look_again)["Device"])
        if self.machines.shows_nvme(str(machine["InstanceType"])):
            device = f"{_NVME}{disk_cid.replace('-', '')}"
        return {"path": device, "volume_id": disk_cid}

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        if vm_cid not in users(self.require(disk_cid)):
            return
        try:
            self.client.change(f"detach disk {disk_cid}", "detach_volume", VolumeId=disk_cid, InstanceId=vm_cid)
        except Refusal as error:
            if not error.is_one("IncorrectState"):  # another call was faster
                raise

        def has_left() -> bool | None:
            return None if vm_cid in users(self.require(disk_cid)) else True

        self.client.waits.until(f"the detachment of disk {disk_cid}", has_left)

    def set_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        tags = ec2.user_tags(metadata)
        self.require(disk_cid)
        ec2.write_tags(self.client, disk_cid, tags)

    def update(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place: size up, type, iops, throughput."""
        spec = read_disk_spec(cloud_properties)
        disk = self.require(disk_cid)
        require_growth(disk_cid, int(disk["Size"]), new_size_mb)
        require_detached(disk_cid, users(disk))
        body: Json = {"Size": gib(new_size_mb)} if gib(new_size_mb) != int(disk["Size"]) else {}
        if cloud_properties.get("type") and spec.type != disk.get("VolumeType"):
            body["VolumeType"] = spec.type
        for key, value in (("Iops", spec.iops), ("Throughput", spec.throughput)):
            if value and value != disk.get(key):
                body[key] = value
        if body:
            self.client.change(f"change disk {disk_cid}", "modify_volume", VolumeId=disk_cid, **body)
            self.client.waits.until(f"the change of disk {disk_cid}", lambda: self._is_changed(disk_cid))

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        with look_before_failing(lambda: self.list_snapshots(mark)):
            self.require(disk_cid)
            change = {"kind": "snapshot", "mark": mark.wire(), "disk": disk_cid, "tags": ec2.user_tags(metadata)}
            made = self.writer.submit("snapshot", mark.intent, change).cid
            ec2.wait_for_new(self.client, "snapshot", made, _KEPT, self.delete_snapshot)
            return made

    def create_snapshot_once(self, change: Json, hold: Hold) -> Created:
        mark = Mark.of_wire(change["mark"])

        def create() -> str:
            answer = self.client.change(
                "create a snapshot",
                "create_snapshot",
                VolumeId=change["disk"],
                Description=mark.name(),
                TagSpecifications=ec2.marked("snapshot", mark, **change["tags"]),
            )
            return str(answer["SnapshotId"])

        return create_if_absent(lambda: self.list_snapshots(mark), create, self.delete_snapshot, hold)

    def list_snapshots(self, mark: Mark) -> list[str]:
        rows = ec2.list_marked(self.client, "snapshot", mark)
        found = sorted(rows, key=lambda row: (str(row.get("StartTime")), str(row["SnapshotId"])))
        return [str(row["SnapshotId"]) for row in found]

    def delete_snapshot(self, cid: str) -> None:
        try:
            self.client.delete(f"snapshot {cid}", "delete_snapshot", SnapshotId=cid)
        except Refusal as error:
            if not error.is_one("InvalidSnapshot.InUse"):
                raise
            remedy = "delete the image that was made from it first"
            raise CpiError(f"snapshot {cid} is used by an image", why=error.why, remedy=remedy) from error
        self.client.forget_created(cid)

    def _attach(self, machine: Row, vm_cid: str, disk_cid: str) -> None:
        """The name is ours to choose; another call may have chosen the same one at the same time."""
        taken = {str(one["DeviceName"]) for one in machine.get("BlockDeviceMappings") or ()}
        free = [f"/dev/sd{letter}" for letter in _LETTERS if f"/dev/sd{letter}" not in taken]
        if not free:
            raise CpiError(f"VM {vm_cid} has no device name left", remedy=f"detach one of its {len(_LETTERS)} disks")
        for device in free:
            try:
                self.client.change(
                    f"attach disk {disk_cid}", "attach_volume", VolumeId=disk_cid, InstanceId=vm_cid, Device=device
                )
                return
            except Refusal as error:
                if vm_cid in users(self.require(disk_cid)):
                    return
                if "in use" not in error.why or not error.aws_code.startswith("InvalidParameter"):
                    raise
                last = error
        raise last

    def _is_changed(self, disk_cid: str) -> bool | None:
        row = ec2.look(self.client, "modification", disk_cid)
        if row and row["ModificationState"] == "failed":
            raise CpiError(f"disk {disk_cid} was not changed", why=str(row.get("StatusMessage")), remedy="repeat")
        return True if row and row["ModificationState"] in _CHANGED else None

    def _zone_of(self, vm_cid: str | None) -> str | None:
        row = ec2.read(self.client, "vm", vm_cid) if vm_cid else None
        return str(row["Placement"]["AvailabilityZone"]) if row else None


def volume_body(spec: VolumeSpec | DiskSpec, settings: Settings) -> Json:
    """What RunInstances and CreateVolume write alike."""
    encrypted = spec.encrypted if spec.encrypted is not None else settings.encrypted or bool(spec.kms_key_arn)
    key = (spec.kms_key_arn or settings.kms_key_arn) if encrypted else None
    return {
        "VolumeType": spec.type,
        **({"Iops": spec.iops} if spec.iops else {}),
        **({"Throughput": spec.throughput} if spec.throughput else {}),
        **({"Encrypted": True} if encrypted else {}),
        **({"KmsKeyId": key} if key else {}),
    }


def users(row: Row) -> tuple[str, ...]:
    attached = row.get("Attachments") or ()
    return tuple(str(one["InstanceId"]) for one in attached if one.get("InstanceId") and one["State"] != "detached")
