"""Disks as Cinder volumes, and their snapshots. Persistent ones are created, attached and changed on their own; those
that come and go with a VM are Nova's, so that they are never without one. Sizes are rounded up to GiB, never down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, InvalidCall, Json, Mark
from coterie.cpi.drivers.openstack.client import BAD, Client, Refusal, Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.properties import VmSpec, VolumeSpec, read_disk_spec
from coterie.cpi.drivers.openstack.rows import Rows, is_gone, user_metadata
from coterie.cpi.kit.create_once import SingleWriter, wait_or_remove
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size
from coterie.cpi.kit.marking import mark_tags
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass

_SERIAL = 20  # characters of a volume's id that a virtio disk has as its serial number
_BUSY = ("creating", "attaching", "detaching", "extending", "retyping", "reserved", "maintenance")
_NAME_LIMIT = 255
_BYTES_PER_GIB = 2**30
_UNFORCED = (3, 66)  # from here on snapshots of attached volumes need no `force`, and take none


@dataclass(frozen=True, slots=True)
class Volumes:
    """Volumes of any kind: waits for their states, removal, and those that come and go with a VM."""

    client: Client
    rows: Rows
    lookups: Lookups
    waits: Waits

    def block_devices(self, spec: VmSpec, image: Row, flavor: Row) -> list[Json]:
        """For a boot: the root disk where it is a volume, and an ephemeral disk; empty where flavor and image are all
        that the VM needs."""
        root, more = self._root_volume(spec, image, flavor), spec.ephemeral_disk
        if root is None and more is None:
            return []
        first = {"uuid": image["id"], "source_type": "image", "boot_index": 0, **self._destination(root)}
        return [first, *([{"source_type": "blank", "boot_index": -1, **self._destination(more)}] if more else ())]

    def list_attached(self, server: str, *, passing: bool) -> list[str]:
        """Of a server, the volumes that go with it (`passing`), or its persistent disks."""
        path = f"/servers/{server}/os-volume_attachments"
        answer = self.client.look(f"list disks of {server}", "compute", path) or {}
        rows: list[Row] = answer.get("volumeAttachments", [])
        return [str(row["volumeId"]) for row in rows if bool(row.get("delete_on_termination")) is passing]

    def delete(self, wanted: str) -> None:
        """Gone when this returns."""
        try:
            self.rows.delete("disk", wanted)
        except Refusal:
            row = self.rows.read("disk", wanted)
            if row and not is_gone(row):  # else Nova is deleting it already
                raise
        self.waits.until(f"the deletion of volume {wanted}", lambda: self._is_gone("disk", wanted))

    def wait_for_state(self, wanted: str, *states: str) -> Row:
        """The volume once it is in one of these states."""

        def look() -> Row | None:
            row = self.rows.read("disk", wanted)
            if row is None:
                raise CpiError(f"volume {wanted} is gone", why="it was deleted", remedy="repeat", retryable=True)
            if str(row["status"]).startswith("error"):
                raise _cinder_error(f"volume {wanted}", f"its status is {row['status']}")
            return row if row["status"] in states else None

        return self.waits.until(f"volume {wanted} being {' or '.join(states)}", look)

    def wait_until_idle(self, wanted: str) -> None:
        """Until Cinder has ended what it does with the volume, well or not, or the volume is gone."""

        def look() -> bool | None:
            row = self.rows.read("disk", wanted)
            return None if row and row["status"] in _BUSY else True

        self.waits.until(f"volume {wanted} being idle", look)

    def delete_snapshot(self, wanted: str) -> None:
        if self.rows.read("snapshot", wanted) is None:
            return
        try:
            self.rows.delete("snapshot", wanted)
        except Refusal:
            row = self.rows.read("snapshot", wanted)
            if row and not is_gone(row):
                raise
        self.waits.until(f"the deletion of snapshot {wanted}", lambda: self._is_gone("snapshot", wanted))

    def wait_for_snapshot(self, wanted: str) -> None:
        def look() -> bool | None:
            row = self.rows.read("snapshot", wanted)
            if row is None or row["status"] == "error":
                raise _cinder_error(f"snapshot {wanted}", "its status is error" if row else "it is gone")
            return True if row["status"] == "available" else None

        self.waits.until(f"snapshot {wanted}", look)

    def _root_volume(self, spec: VmSpec, image: Row, flavor: Row) -> VolumeSpec | None:
        """Flavors without a disk of their own boot from volumes only."""
        wanted = self.client.settings.boot_from_volume if spec.boot_from_volume is None else spec.boot_from_volume
        if spec.root_disk:
            return spec.root_disk
        if not wanted and flavor.get("disk"):
            return None
        needed = max(int(image.get("min_disk") or 0), -(-int(image.get("virtual_size") or 0) // _BYTES_PER_GIB))
        size = max(int(flavor.get("disk") or 0), needed)
        if size < 1:
            raise InvalidCall("the size of the root volume is not known", remedy="set cloud_properties.root_disk.size")
        return VolumeSpec(size)

    def _destination(self, volume: VolumeSpec | None) -> Json:
        """None: on the host itself."""
        if volume is None:
            return {"destination_type": "local", "delete_on_termination": True}
        kind = self.lookups.volume_type(volume.type)
        body = {"destination_type": "volume", "volume_size": volume.size, "delete_on_termination": True}
        return {**body, **({"volume_type": kind} if kind else {})}

    def _is_gone(self, kind: Any, wanted: str) -> bool | None:
        row = self.rows.read(kind, wanted)
        if row is not None and row["status"] == "error_deleting":
            raise CpiError(f"{kind} {wanted} cannot be deleted", why="error_deleting", remedy="repeat", retryable=True)
        return True if row is None else None


@dataclass(frozen=True, slots=True)
class Disks:
    """Persistent disks."""

    client: Client
    rows: Rows
    lookups: Lookups
    volumes: Volumes
    waits: Waits
    writer: SingleWriter[Refusal]

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = read_disk_spec(cloud_properties)
        require_size(size_mb)
        zone = self.lookups.volume_zone(spec.availability_zone or self._zone_of(vm_cid))
        if spec.availability_zone and zone is None:
            raise InvalidCall(
                f"cloud_properties.availability_zone {spec.availability_zone!r} is none of Cinder's",
                remedy=f"use one of: {', '.join(self.lookups.zones('block-storage'))}",
            )
        body: Json = {
            "size": gib(size_mb),
            "name": (spec.name or mark.name())[:_NAME_LIMIT],
            "metadata": mark_tags(mark),
            "volume_type": self.lookups.volume_type(spec.type),
            "availability_zone": zone,
        }
        wanted = self.writer.submit("disk", mark.intent, self.rows.create_change("disk", mark, body)).cid
        wait_or_remove(lambda: self._wait_until_usable(wanted), lambda: self.volumes.delete(wanted))
        return wanted

    def delete(self, disk_cid: str) -> None:
        row = self._find(disk_cid)
        if row is None:
            return
        require_detached(disk_cid, disk_users(row))
        if row["status"] in _BUSY:
            self.volumes.wait_until_idle(disk_cid)
        try:
            self.volumes.delete(disk_cid)
        except Refusal as error:
            if error.status != BAD:
                raise
            remedy = "delete its snapshots, and end what else holds it, first"
            raise CpiError(f"disk {disk_cid} cannot be deleted", why=error.text, remedy=remedy) from error

    def exists(self, disk_cid: str) -> bool:
        return self._find(disk_cid) is not None

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        self.rows.require_vm(vm_cid)
        disk = self._require(disk_cid)
        if disk["status"] in _BUSY:
            disk = self._wait_until_usable(disk_cid)
        if vm_cid not in disk_users(disk):
            require_detached(disk_cid, disk_users(disk))
            self._attach(vm_cid, disk_cid)
            disk = self.volumes.wait_for_state(disk_cid, "in-use")
        return _hint(disk, vm_cid)

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        if vm_cid not in disk_users(self._require(disk_cid)):
            return
        path = f"/servers/{vm_cid}/os-volume_attachments/{disk_cid}"
        self.client.delete(f"detach disk {disk_cid}", "compute", path)

        def has_left() -> bool | None:
            return None if vm_cid in disk_users(self._require(disk_cid)) else True

        self.waits.until(f"the detachment of disk {disk_cid}", has_left)

    def set_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        wanted = user_metadata(metadata)
        self._require(disk_cid)
        path = f"/volumes/{disk_cid}/metadata"
        self.client.send("POST", f"describe disk {disk_cid}", "block-storage", path, {"metadata": wanted})

    def update(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place: size, type, or both."""
        spec = read_disk_spec(cloud_properties)
        disk = self._require_changeable(disk_cid, new_size_mb)
        kind = self.lookups.volume_type(spec.type) if spec.type else None
        if kind and kind != disk.get("volume_type"):
            self._act(disk_cid, {"os-retype": {"new_type": kind, "migration_policy": "on-demand"}}, "change")
            if self.volumes.wait_for_state(disk_cid, "available").get("volume_type") != kind:
                why = f"Cinder did not make it {kind}"
                raise CpiError(f"disk {disk_cid} kept its type", why=why, remedy="look at Cinder's log")
        self._grow(disk, new_size_mb)

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        known = self.rows.find_live("snapshot", mark)
        wanted = str(known["id"]) if known else self._create_snapshot(disk_cid, metadata, mark)
        wait_or_remove(lambda: self.volumes.wait_for_snapshot(wanted), lambda: self.volumes.delete_snapshot(wanted))
        return wanted

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self.volumes.delete_snapshot(snapshot_cid)

    def _create_snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        self._require(disk_cid)
        described = {**user_metadata(metadata), **mark_tags(mark)}
        body: Json = {"volume_id": disk_cid, "name": mark.name(), "metadata": described}
        if (self.client.microversion("block-storage") or _UNFORCED) < _UNFORCED:
            body["force"] = True
        return self.writer.submit("snapshot", mark.intent, self.rows.create_change("snapshot", mark, body)).cid

    def _wait_until_usable(self, wanted: str) -> Row:
        return self.volumes.wait_for_state(wanted, "available", "in-use")

    def _attach(self, vm_cid: str, disk_cid: str) -> None:
        body = {"volumeAttachment": {"volumeId": disk_cid}}
        path = f"/servers/{vm_cid}/os-volume_attachments"
        try:
            self.client.send("POST", f"attach disk {disk_cid}", "compute", path, body)
        except Refusal:
            # another call may have attached it there meanwhile
            if vm_cid not in disk_users(self._wait_until_usable(disk_cid)):
                raise

    def _require_changeable(self, disk_cid: str, new_size_mb: int) -> Row:
        self.volumes.wait_until_idle(disk_cid)
        disk = self._require(disk_cid)
        require_growth(disk_cid, int(disk["size"]), new_size_mb)
        require_detached(disk_cid, disk_users(disk))
        return disk

    def _grow(self, disk: Row, new_size_mb: int) -> None:
        wanted, disk_cid = gib(new_size_mb), str(disk["id"])
        if wanted == int(disk["size"]):
            return
        self._act(disk_cid, {"os-extend": {"new_size": wanted}}, "extend")

        def has_grown() -> bool | None:
            return True if int(self.volumes.wait_for_state(disk_cid, "available")["size"]) >= wanted else None

        self.waits.until(f"the growth of disk {disk_cid}", has_grown)

    def _act(self, disk_cid: str, action: Json, what: str) -> None:
        self.client.send("POST", f"{what} disk {disk_cid}", "block-storage", f"/volumes/{disk_cid}/action", action)

    def _find(self, wanted: str) -> Row | None:
        row = self.rows.read("disk", wanted)
        return None if row is None or is_gone(row) else row

    def _require(self, disk_cid: str) -> Row:
        row = self._find(disk_cid)
        if row is None:
            raise disk_missing(disk_cid[:80])
        return row

    def _zone_of(self, vm_cid: str | None) -> str | None:
        server = self.rows.read("vm", vm_cid) if vm_cid else None
        return server.get("OS-EXT-AZ:availability_zone") if server else None


def disk_users(disk: Row) -> tuple[str, ...]:
    return tuple(str(one["server_id"]) for one in disk.get("attachments") or () if one.get("server_id"))


def _cinder_error(what: str, why: str) -> CpiError:
    remedy = "repeat; if it happens again, look at Cinder's log"
    return CpiError(f"Cinder could not make {what} ready", why=why, remedy=remedy, retryable=True)


def _hint(disk: Row, vm_cid: str) -> dict[str, Any]:
    """The agent finds the disk by its serial number; the path is what Nova says, which guests may ignore."""
    device = next((one.get("device") for one in disk["attachments"] if one["server_id"] == vm_cid), None)
    return {**({"path": str(device)} if device else {}), "id": str(disk["id"])[:_SERIAL], "volume_id": str(disk["id"])}
