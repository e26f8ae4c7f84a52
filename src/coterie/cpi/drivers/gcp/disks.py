"""Persistent disks and snapshots. Each is named by its mark, so the cloud takes it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import DiskHint, Json, Mark, NotSupported
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.marks import Row, marked, name_of, user_labels, zone_of
from coterie.cpi.drivers.gcp.properties import read_disk_spec
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    machines: Machines

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = read_disk_spec(cloud_properties)
        require_size(size_mb)
        zone = self.machines.require_zone(spec.zone or (vm_cid or "").partition("/")[0])
        body = {
            "labels": marked(mark),
            "sizeGb": str(gib(size_mb)),
            "type": f"{self.client.project}/zones/{zone}/diskTypes/{spec.type}",
            **({"provisionedIops": str(spec.iops)} if spec.iops else {}),
            **({"provisionedThroughput": str(spec.throughput)} if spec.throughput else {}),
        }
        cid = f"{zone}/{mark.name()}"
        self.client.insert(f"create disk {cid}", self.path(cid), body, mark)
        return cid

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        self.require(disk_cid)
        name, labels = mark.name(), {**user_labels(metadata), **marked(mark)}
        body = {"labels": labels, "sourceDisk": self.path(disk_cid)}
        self.client.insert(f"create snapshot {name}", self.client.path("snapshots", name), body, mark)
        return name

    def path(self, cid: str) -> str:
        return self.client.path("disks", cid)

    def read(self, cid: str) -> Row | None:
        return self.client.get(self.path(cid))

    def exists(self, cid: str) -> bool:
        return self.read(cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise disk_missing(cid[:80])
        return row

    def delete(self, cid: str) -> None:
        row = self.read(cid)
        if row is not None:
            require_detached(cid, users(row))
            self.client.delete(f"delete disk {cid}", self.path(cid))

    def delete_snapshot(self, cid: str) -> None:
        self.client.delete(f"delete snapshot {cid}", self.client.path("snapshots", cid))

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        """The device is named after the disk, so the hint follows from the CID."""
        self.machines.require(vm_cid)
        disk = self.require(disk_cid)
        name = str(disk["name"])
        if vm_cid not in users(disk):
            require_detached(disk_cid, users(disk))
            body = {"source": self.path(disk_cid), "deviceName": name, "autoDelete": False}
            try:
                self.client.change(f"attach disk {disk_cid}", "POST", f"{self.machines.path(vm_cid)}/attachDisk", body)
            except Refusal:
                if vm_cid not in users(self.require(disk_cid)):  # else another call was faster
                    raise
        else:
            name = next(iter(_devices(self.machines.require(vm_cid), disk_cid)), name)
        return {"path": f"/dev/disk/by-id/google-{name}", "id": name}

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        """Not attached is fine, also when another call was faster."""
        self.require(disk_cid)
        devices = _devices(self.machines.require(vm_cid), disk_cid)
        if not devices:
            return
        path = f"{self.machines.path(vm_cid)}/detachDisk"
        try:
            self.client.change(f"detach disk {disk_cid}", "POST", path, deviceName=devices[0])
        except Refusal:
            if vm_cid in users(self.require(disk_cid)):
                raise

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        self.client.set_labels(self.path(cid), lambda: self.require(cid), user_labels(metadata))

    def update(self, cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place: size up, iops, throughput. Google never changes the type of a disk."""
        spec, row = read_disk_spec(cloud_properties), self.require(cid)
        path, has = self.path(cid), int(row["sizeGb"])
        require_growth(cid, has, new_size_mb)
        require_detached(cid, users(row))
        if cloud_properties.get("type") and spec.type != name_of(row["type"]):
            raise NotSupported(
                f"disk {cid} is a {name_of(row['type'])} for life",
                why="Google changes no disk's type",
                remedy="make a new disk, and let the agent copy the data",
            )
        if gib(new_size_mb) != has:
            self.client.change(f"resize disk {cid}", "POST", f"{path}/resize", {"sizeGb": str(gib(new_size_mb))})
        wanted = {"provisionedIops": spec.iops, "provisionedThroughput": spec.throughput}
        changes = {key: str(value) for key, value in wanted.items() if value and str(value) != str(row.get(key))}
        if changes:
            body = {"name": row["name"], **changes}
            self.client.change(f"change disk {cid}", "PATCH", path, body, updateMask=",".join(changes))


def users(row: Row) -> tuple[str, ...]:
    """CIDs of the VMs that a disk is attached to, which are in its zone."""
    return tuple(f"{zone_of(row)}/{name_of(one)}" for one in row.get("users") or ())


def _devices(vm: Row, disk_cid: str) -> list[str]:
    """What a VM calls this disk. Local SSDs have no source; a disk of the same name may be in another zone."""
    zone, _, name = disk_cid.partition("/")
    link = f"/zones/{zone}/disks/{name}"
    return [str(one["deviceName"]) for one in vm.get("disks") or () if str(one.get("source") or "").endswith(link)]
