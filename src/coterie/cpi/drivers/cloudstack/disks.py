"""Persistent disks as data volumes, and their snapshots. Sizes are rounded up to GiB, never down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, InvalidCall, Json, Mark
from coterie.cpi.drivers.cloudstack.agent_settings import device_path
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.machines import Machines
from coterie.cpi.drivers.cloudstack.marking import users_tags
from coterie.cpi.drivers.cloudstack.order import gib, read_disk_order
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal, cloud_call
from coterie.cpi.drivers.cloudstack.removal import is_ephemeral

_SERIAL = 20  # characters of a volume's uuid that a virtio disk has as its serial number
_GONE = ("Destroy", "Expunging", "Expunged")


class Disks(Machines):
    @cloud_call
    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        order = read_disk_order(cloud_properties or {})
        if size_mb < 1:
            raise InvalidCall(f"a disk of {size_mb} MB cannot be made", remedy="ask for at least 1 MB")
        known = self._disk_marked(mark)
        if known:
            return str(known["id"])
        offering = self.disk_offering(order.disk_offering)
        vm = self.row("listVirtualMachines", vm_cid) if vm_cid and not order.zone else None
        zone = vm["zoneid"] if vm else self.zone(order.zone)["id"]
        parameters = {"name": mark.name(), "diskofferingid": offering["id"], "zoneid": zone}
        size = offered_size(offering, gib(size_mb))
        started, known = self.started_once(mark, "createVolume", self._known_disk, size=size, **parameters)
        if known:
            self._drop_strays(str(known["id"]), mark)
            return str(known["id"])
        wanted = str((started or {})["id"])
        try:
            self.api.wait("createVolume", str((started or {})["jobid"]), self.settings.state_timeout_volume)
        except Refusal:
            self.delete_disk(wanted)
            raise
        return wanted

    @cloud_call
    def delete_disk(self, disk_cid: str) -> None:
        row = self._known_disk(disk_cid)
        if row is None:
            return
        if row.get("virtualmachineid"):
            raise CpiError(f"disk {disk_cid} is attached to {row['virtualmachineid']}", remedy="detach it first")
        try:
            self.api.call("deleteVolume", id=disk_cid)
        except Refusal as error:
            if error.code != PARAMETER or self._known_disk(disk_cid):
                raise

    @cloud_call
    def has_disk(self, disk_cid: str) -> bool:
        return self._known_disk(disk_cid) is not None

    @cloud_call
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        vm, disk = self.require_vm(vm_cid), self.volume(disk_cid)
        if disk.get("virtualmachineid") == vm_cid:
            return _hint(disk)
        if disk.get("virtualmachineid"):
            raise CpiError(
                f"disk {disk_cid} is attached to {disk['virtualmachineid']}", remedy="detach it from there first"
            )
        self.bring(disk, vm)
        limit = self.settings.state_timeout_volume
        return _hint(self.api.run("attachVolume", limit, id=disk_cid, virtualmachineid=vm_cid)["volume"])

    @cloud_call
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        if self.volume(disk_cid).get("virtualmachineid") != vm_cid:
            return
        try:
            self.api.run("detachVolume", self.settings.state_timeout_volume, id=disk_cid)
        except Refusal as error:
            if error.code != PARAMETER or self.volume(disk_cid).get("virtualmachineid") == vm_cid:
                raise

    @cloud_call
    def get_disks(self, vm_cid: str) -> list[str]:
        vm = self.require_vm(vm_cid)
        return [str(row["id"]) for row in self.data_disks(vm_cid) if not is_ephemeral(row, vm)]

    @cloud_call
    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self.retag("Volume", self.volume(disk_cid), users_tags(metadata))

    def _drop_strays(self, counts: str, mark: Mark) -> None:
        """A server that looks at a job's uuid late has made a volume before it refuses the second one."""
        for row in self.api.every("listVolumes", name=mark.name(), type="DATADISK"):
            if row["name"] == mark.name() and row["id"] != counts and row.get("state") == "Allocated":
                self.api.call("deleteVolume", id=row["id"])

    def _known_disk(self, wanted: str) -> Row | None:
        row = self.row("listVolumes", wanted)
        return None if row is None or row.get("state") in _GONE else row

    def _disk_marked(self, mark: Mark) -> Row | None:
        rows = self.api.every("listVolumes", name=mark.name(), type="DATADISK")
        return next((row for row in rows if row["name"] == mark.name() and row.get("state") not in _GONE), None)


def offered_size(offering: Row, wanted_gib: int) -> int | None:
    """What to ask for; None where the offering fixes it, if that is enough."""
    if offering.get("iscustomized"):
        return wanted_gib
    fixed = int(offering.get("disksize") or 0)
    if fixed < wanted_gib:
        raise InvalidCall(
            f"disk offering {offering['name']!r} has {fixed} GB, {wanted_gib} are asked",
            remedy="use a larger offering, or one whose size is free",
        )
    return None


def _hint(volume: Row) -> dict[str, Any]:
    serial = str(volume["id"]).replace("-", "")[:_SERIAL]
    return {"path": device_path(str(volume.get("hypervisor")), int(volume["deviceid"])), "id": serial}
