"""Volumes and snapshots. A volume is made under a client token; a snapshot has none, so one writer makes it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, InvalidCall, Json, Mark, OutcomeUnknown
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters, look_before_failing
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.properties import DiskSpec, Settings, VolumeSpec, read_disk_spec
from coterie.cpi.drivers.aws.tags import marked, of_mark, tag_list, user_tags, with_mark
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent, wait_or_remove
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass

_LETTERS = "fghijklmnop"  # /dev/sd[f-p], which AWS recommends for volumes
_NVME = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"  # and the id: machines with NVMe have no /dev/sdf
_GONE = ("deleting", "deleted")
_USABLE = ("optimizing", "completed")  # states of a modification in which the volume has its new size


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    machines: Machines
    writer: SingleWriter[Refusal]
    waits: Waits

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        with look_before_failing(lambda: self._find(mark)):
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
            "TagSpecifications": marked("volume", mark),
            **volume_body(spec, settings),
        }
        cid = self._start(body, mark)
        self.client.note_created(cid)
        if not wait_or_remove(lambda: self._becomes_usable(cid), lambda: self.delete(cid)):
            self.client.forget_created(cid)
            raise CpiError(f"volume {cid} of this mark was deleted", remedy="repeat under a new mark", retryable=True)
        return cid

    def _start(self, body: Json, mark: Mark) -> str:
        """A token that was used with another request: then its volume counts, if it can be seen."""
        try:
            return str(self.client.change("create a volume", "create_volume", **body)["VolumeId"])
        except Refusal as error:
            if not error.is_one("IdempotentParameterMismatch"):
                raise
            found = self._find(mark)
            if found is not None:
                return found
            raise OutcomeUnknown(
                "the mark was used with another request, and its volume is not visible",
                why=error.why,
                remedy="look for it by its mark",
            ) from error

    def _find(self, mark: Mark) -> str | None:
        rows = self.client.list_all("find a volume", "describe_volumes", "Volumes", Filters=of_mark(mark))
        return next((str(row["VolumeId"]) for row in with_mark(rows, mark) if row["State"] not in _GONE), None)

    def read(self, cid: str) -> Row | None:
        rows = self.client.ask("read a volume", "describe_volumes", Filters=filters(volume_id=cid))["Volumes"]
        found = next((row for row in rows if row["VolumeId"] == cid), None)
        return None if found is None or found["State"] in _GONE else found

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            self.client.require_settled(cid)
            raise disk_missing(cid[:80])
        return row

    def exists(self, cid: str) -> bool:
        found = self.read(cid) is not None
        if not found:
            self.client.require_settled(cid)
        return found

    def delete(self, cid: str) -> None:
        """One that no list shows yet, which another process may have created just now, is deleted all the same; AWS
        itself deletes none that is attached."""
        row = self.read(cid)
        if row is not None:
            require_detached(cid, users(row))
        try:
            self.client.change(f"delete volume {cid}", "delete_volume", VolumeId=cid)
        except Refusal as error:
            if not error.is_missing and not error.is_one("InvalidVolume.Malformed", "InvalidParameterValue"):
                raise
            if row is None:
                self.client.require_settled(cid)
                return
        self.client.forget_created(cid)
        self.waits.until(f"the deletion of volume {cid}", lambda: True if self.read(cid) is None else None)

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        machine, disk = self.machines.require(vm_cid), self.require(disk_cid)
        if vm_cid not in users(disk):
            require_detached(disk_cid, users(disk))
            self._attach(machine, vm_cid, disk_cid)

        def look() -> Row | None:
            found = [one for one in self.require(disk_cid).get("Attachments") or () if one["InstanceId"] == vm_cid]
            return found[0] if found and found[0]["State"] == "attached" else None

        device = str(self.waits.until(f"the attachment of disk {disk_cid}", look)["Device"])
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

        self.waits.until(f"the detachment of disk {disk_cid}", has_left)

    def set_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        tags = user_tags(metadata)
        self.require(disk_cid)
        if tags:
            self.client.change(f"describe {disk_cid}", "create_tags", Resources=[disk_cid], Tags=tag_list(tags))

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
            self.waits.until(f"the change of disk {disk_cid}", lambda: self._is_changed(disk_cid, body))

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        with look_before_failing(lambda: self.list_snapshots(mark)):
            self.require(disk_cid)
            change = {"kind": "snapshot", "mark": mark.wire(), "disk": disk_cid, "tags": user_tags(metadata)}
            made = self.writer.submit("snapshot", mark.intent, change).cid
            wait_or_remove(lambda: self._wait_for_snapshot(made), lambda: self.delete_snapshot(made))
            return made

    def create_snapshot_once(self, change: Json, hold: Hold) -> Created:
        mark = Mark.of_wire(change["mark"])

        def create() -> str:
            answer = self.client.change(
                "create a snapshot",
                "create_snapshot",
                VolumeId=change["disk"],
                Description=mark.name(),
                TagSpecifications=marked("snapshot", mark, **change["tags"]),
            )
            return str(answer["SnapshotId"])

        return create_if_absent(lambda: self.list_snapshots(mark), create, self.delete_snapshot, hold)

    def list_snapshots(self, mark: Mark) -> list[str]:
        rows = self.client.list_all(
            "find a snapshot", "describe_snapshots", "Snapshots", Filters=of_mark(mark), OwnerIds=["self"]
        )
        found = sorted(with_mark(rows, mark), key=lambda row: (str(row.get("StartTime")), str(row["SnapshotId"])))
        return [str(row["SnapshotId"]) for row in found]

    def delete_snapshot(self, cid: str) -> None:
        try:
            self.client.change(f"delete snapshot {cid}", "delete_snapshot", SnapshotId=cid)
        except Refusal as error:
            if error.is_one("InvalidSnapshot.InUse"):
                remedy = "delete the image that was made from it first"
                raise CpiError(f"snapshot {cid} is used by an image", why=error.why, remedy=remedy) from error
            if not error.is_missing:
                raise

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

    def _is_changed(self, disk_cid: str, body: Json) -> bool | None:
        rows = self.client.ask(
            "read the change of a disk", "describe_volumes_modifications", Filters=filters(volume_id=disk_cid)
        )["VolumesModifications"]
        states = [row for row in rows if row["VolumeId"] == disk_cid]
        if any(row["ModificationState"] == "failed" for row in states):
            raise CpiError(
                f"disk {disk_cid} was not changed", why=str(states[-1].get("StatusMessage")), remedy="repeat"
            )
        return True if states and states[-1]["ModificationState"] in _USABLE else None

    def _becomes_usable(self, cid: str) -> bool:
        """That AWS is too busy to show a volume is no reason to remove it. The token answers its volume for as long as
        AWS remembers it, also after its deletion: one that is going, or does not turn up, is never coming."""
        client = self.client
        last = time.monotonic() + client.settings.settle_s

        def look() -> bool | None:
            try:
                rows = client.ask("read a volume", "describe_volumes", Filters=filters(volume_id=cid))["Volumes"]
            except CpiError as error:
                raise OutcomeUnknown(
                    f"volume {cid} was made, and cannot be read", why=str(error), remedy="look for it by its mark"
                ) from error
            state = next((str(row["State"]) for row in rows if row["VolumeId"] == cid), None)
            if state in _GONE or (state is None and time.monotonic() > last):
                return False
            if state == "error":
                raise CpiError(
                    f"volume {cid} came to state error",
                    why="AWS gives no reason; often it is a KMS key without rights",
                    remedy="check the rights to the KMS key, then repeat",
                    retryable=True,
                )
            return True if state in ("available", "in-use") else None

        return self.waits.until(f"volume {cid} being available", look)

    def _wait_for_snapshot(self, cid: str) -> Row:
        """It is usable as soon as it is pending: AWS keeps the moment, and copies later."""

        def look() -> Row | None:
            rows = self.client.ask("read a snapshot", "describe_snapshots", Filters=filters(snapshot_id=cid))
            row = next((one for one in rows["Snapshots"] if one["SnapshotId"] == cid), None)
            if row is not None and row["State"] == "error":
                why = str(row.get("StateMessage") or "state error")
                raise CpiError(f"snapshot {cid} failed", why=why, remedy="repeat", retryable=True)
            return row

        return self.waits.until(f"snapshot {cid} being there", look)

    def _zone_of(self, vm_cid: str | None) -> str | None:
        row = self.machines.read(vm_cid) if vm_cid else None
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
