"""Persistent disks as data volumes, and their snapshots; and disks on local storage, which are on one host. Sizes are
rounded up to GiB, never down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, InvalidCall, Json, Mark, NotSupported
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import PARAMETER, Client, Refusal, Row
from coterie.cpi.drivers.cloudstack.marks import mark_tags, user_tags
from coterie.cpi.drivers.cloudstack.properties import read_disk_spec
from coterie.cpi.drivers.cloudstack.vms import Vms
from coterie.cpi.kit.create_once import wait_or_remove
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size, serial_number
from coterie.slotted import dataclass

_DEVICES = {"KVM": "/dev/vd", "XenServer": "/dev/xvd", "XCP-ng": "/dev/xvd", "VMware": "/dev/sd"}
_GONE = ("Destroy", "Expunging", "Expunged")
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    catalog: Catalog
    vms: Vms
    local_storage: LocalStorage

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = read_disk_spec(cloud_properties)
        require_size(size_mb)
        known = next((row for row in self._rows_of_mark(mark) if row.get("state") not in _GONE), None)
        if known:
            return str(known["id"])
        offering = self.catalog.disk_offering(spec.disk_offering)
        vm = self.client.read("listVirtualMachines", vm_cid) if vm_cid and not spec.zone else None
        row, is_own = self.client.start_once(
            mark,
            "createVolume",
            lambda cid: read_volume(self.client, cid),
            name=mark.name(),
            diskofferingid=offering["id"],
            zoneid=vm["zoneid"] if vm else self.catalog.zone(spec.zone)["id"],
            size=_offered_size(offering, gib(size_mb)),
        )
        cid = str(row["id"])
        if is_own:
            job = str(row["jobid"])
            wait_or_remove(
                lambda: self.client.wait("createVolume", job, self.client.settings.state_timeout_volume),
                lambda: self.delete(cid),
            )
        else:
            self._delete_strays(cid, mark)
        return cid

    def delete(self, cid: str) -> None:
        row = read_volume(self.client, cid)
        if row is None:
            return
        require_detached(cid, attached_vms(row))
        try:
            self.client.call("deleteVolume", id=cid)
        except Refusal as error:
            if error.errorcode != PARAMETER or self.exists(cid):
                raise

    def exists(self, cid: str) -> bool:
        return read_volume(self.client, cid) is not None

    def attach(self, vm_cid: str, cid: str) -> DiskHint:
        vm, disk = self.vms.require(vm_cid), require_volume(self.client, cid)
        if disk.get("virtualmachineid") == vm_cid:
            return _hint(disk)
        require_detached(cid, attached_vms(disk), "detach it from there first")
        self.local_storage.move_to_host_of(vm, disk)
        return _hint(
            self.client.run("attachVolume", self.client.settings.state_timeout_volume, id=cid, virtualmachineid=vm_cid)[
                "volume"
            ]
        )

    def detach(self, vm_cid: str, cid: str) -> None:
        if not self._is_attached(vm_cid, cid):
            return
        limit = self.client.settings.state_timeout_volume
        self.client.remove("detachVolume", lambda: self._is_attached(vm_cid, cid), limit_s=limit, id=cid)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        self.client.set_tags("Volume", require_volume(self.client, cid), user_tags(metadata))

    def resize(self, cid: str, new_size_mb: int) -> None:
        disk = self._require_growable(cid, new_size_mb)
        if gib(new_size_mb) * _GIB == int(disk["size"]):
            return
        offering = self.catalog.disk_offering(str(disk.get("diskofferingid")))
        if not offering.get("iscustomized"):
            raise NotSupported(
                f"disk offering {offering['name']!r} fixes the size of disk {cid}",
                remedy="change its offering with update_disk, or copy it to a larger disk",
            )
        self._change(cid, size=gib(new_size_mb))

    def update(self, cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place: size, offering, or both."""
        spec = read_disk_spec(cloud_properties)
        disk = self._require_growable(cid, new_size_mb)
        offering = self.catalog.disk_offering(spec.disk_offering or disk.get("diskofferingid"))
        size = _offered_size(offering, gib(new_size_mb))
        if offering["id"] != disk.get("diskofferingid"):
            self._change(cid, size=size, diskofferingid=offering["id"])
        elif size and size * _GIB != int(disk["size"]):
            self._change(cid, size=size)

    def snapshot(self, cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        rows = self.client.list_all("listSnapshots", name=mark.name())
        known = next((row for row in rows if row["name"] == mark.name()), None)
        if known:
            return str(known["id"])
        if require_volume(self.client, cid).get("state") == "Allocated":
            raise CpiError(
                f"disk {cid} was never attached, so CloudStack has nothing to copy",
                remedy="attach it once before taking snapshots",
            )
        row, is_own = self.client.start_once(
            mark, "createSnapshot", self._read_snapshot, volumeid=cid, name=mark.name()
        )
        if is_own:
            tags = {**user_tags(metadata), **mark_tags(mark)}
            wait_or_remove(lambda: self._finish_snapshot(row, tags), lambda: self.delete_snapshot(str(row["id"])))
        return str(row["id"])

    def delete_snapshot(self, cid: str) -> None:
        if self._read_snapshot(cid):
            self.client.remove("deleteSnapshot", lambda: self._read_snapshot(cid), id=cid)

    def _rows_of_mark(self, mark: Mark) -> list[Row]:
        rows = self.client.list_all("listVolumes", name=mark.name(), type="DATADISK")
        return [row for row in rows if row["name"] == mark.name()]

    def _delete_strays(self, kept: str, mark: Mark) -> None:
        """A server that looks at a job's uuid late has created a volume before it refuses the second job."""
        for row in self._rows_of_mark(mark):
            if row["id"] != kept and row.get("state") == "Allocated":
                self.client.call("deleteVolume", id=row["id"])

    def _finish_snapshot(self, row: Row, tags: Mapping[str, str]) -> None:
        self.client.wait("createSnapshot", str(row["jobid"]), self.client.settings.state_timeout_volume)
        self.client.add_tags("Snapshot", str(row["id"]), tags)

    def _read_snapshot(self, cid: str) -> Row | None:
        return self.client.read("listSnapshots", cid)

    def _is_attached(self, vm_cid: str, cid: str) -> bool:
        return bool(require_volume(self.client, cid).get("virtualmachineid") == vm_cid)

    def _require_growable(self, cid: str, new_size_mb: int) -> Row:
        disk = require_volume(self.client, cid)
        require_growth(cid, int(disk["size"]) / _GIB, new_size_mb)
        require_detached(cid, attached_vms(disk))
        return disk

    def _change(self, cid: str, **parameters: Any) -> None:
        self.client.run("resizeVolume", self.client.settings.state_timeout_volume, id=cid, **parameters)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A VM is put on the host of its disks, or a disk is moved to the host of its VM. Where neither can be done, the
    request is refused before anything is created."""

    client: Client

    def host_of_disks(self, cids: Sequence[str]) -> str | None:
        """The id of the host for a VM with these disks; None: any. Of several hosts the one that holds most, since the
        other disks have to move."""
        held: dict[str, int] = {}
        for cid in cids:
            disk = require_volume(self.client, cid)
            host = self._host_of(disk)
            if host:
                held[host] = held.get(host, 0) + int(disk.get("size") or 0)
        if len(held) > 1 and not self.client.settings.migrate_local_disks:
            raise CpiError(
                "the disks are on local storage of different hosts",
                why=", ".join(cids),
                remedy="migrate them to one host or to shared storage, or set properties.migrate_local_disks: true",
            )
        return max(held, key=lambda host: (held[host], host)) if held else None

    def move_to_host_of(self, vm: Row, disk: Row) -> None:
        host = self._host_of(disk) if vm.get("hostid") else None
        if host is None or host == vm["hostid"]:
            return
        if not self.client.settings.migrate_local_disks:
            raise CpiError(
                f"disk {disk['id']} is on local storage of another host than VM {vm['id']}",
                remedy="name the disk when the VM is made, so that it is put there; or migrate the disk",
            )
        pool = self._pool_of(str(vm["hostid"]))
        limit = self.client.settings.state_timeout_volume
        self.client.run("migrateVolume", limit, volumeid=disk["id"], storageid=pool["id"])

    def _pool_of(self, host: str) -> Row:
        (row,) = self.client.list_all("listHosts", id=host)
        where = {"zoneid": row.get("zoneid"), "ipaddress": row.get("ipaddress")}
        for pool in self.client.list_all("listStoragePools", **where):
            if pool.get("scope") == "HOST":
                return pool
        raise CpiError(
            f"host {row['name']} has no local storage", remedy="use a disk offering on shared storage, or another host"
        )

    def _host_of(self, disk: Row) -> str | None:
        """None for a disk on shared storage. Only administrators see the pool of a volume, and the host of a pool."""
        if disk.get("storagetype") != "local" or disk.get("state") == "Allocated":
            return None
        if not disk.get("storageid"):
            raise CpiError(
                f"disk {disk['id']} is on local storage of one host, and this account may not know which",
                remedy="use a disk offering on shared storage, or keys of an administrator",
            )
        pools, _ = self.client.page("listStoragePools", id=disk["storageid"])
        for pool in pools:
            for row in self.client.list_all("listHosts", type="Routing", zoneid=pool.get("zoneid")):
                if row.get("ipaddress") == pool.get("ipaddress"):
                    return str(row["id"])
        raise CpiError(
            f"the host of disk {disk['id']} is not known",
            why=f"no host has the address of its storage pool {disk['storageid']}",
            remedy="migrate the disk to shared storage",
        )


def read_volume(client: Client, cid: str) -> Row | None:
    row = client.read("listVolumes", cid)
    return None if row is None or row.get("state") in _GONE else row


def require_volume(client: Client, cid: str) -> Row:
    row = read_volume(client, cid)
    if row is None:
        raise disk_missing(cid)
    return row


def device_path(hypervisor: str, device: int) -> str:
    """Device 0 is the root disk."""
    return f"{_DEVICES.get(hypervisor, '/dev/vd')}{chr(ord('a') + device)}"


def attached_vms(row: Row) -> tuple[str, ...]:
    """The VM that has a volume or a public address."""
    return (str(row["virtualmachineid"]),) if row.get("virtualmachineid") else ()


def _offered_size(offering: Row, wanted_gib: int) -> int | None:
    """The size to request; None where the offering fixes it, if that is enough."""
    if offering.get("iscustomized"):
        return wanted_gib
    fixed = int(offering.get("disksize") or 0)
    if fixed < wanted_gib:
        raise InvalidCall(
            f"disk offering {offering['name']!r} has {fixed} GB, {wanted_gib} are needed",
            remedy="use a larger offering, or one whose size is free",
        )
    return None


def _hint(volume: Row) -> dict[str, Any]:
    path = device_path(str(volume.get("hypervisor")), int(volume["deviceid"]))
    return {"path": path, "id": serial_number(str(volume["id"]))}
