"""Managed disks and snapshots. Each is named by its mark, so a repeated creation is the same request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, DiskNotAttached, Json, Mark
from coterie.cpi.drivers.azure.client import Client, Refusal, Row, Type, is_same, name_of, provisioning_state
from coterie.cpi.drivers.azure.machines import Machines, attached, is_nvme
from coterie.cpi.drivers.azure.properties import read_disk_spec
from coterie.cpi.drivers.azure.tags import marked, merge_tags, require_marked, user_tags
from coterie.cpi.kit.disks import disk_missing, gib, require_detached, require_growth, require_size
from coterie.slotted import dataclass

SCSI = "{f8b3781b-1e82-4818-a1c3-63d806ec15bb}"  # the controller of data disks, as Linux shows it
_CACHING = "coterie-caching"
_LUNS = 64
OPEN = ("ReadyToUpload", "ActiveUpload", "ActiveSAS")  # states of disks that are being uploaded


@dataclass(frozen=True, slots=True)
class Disks:
    client: Client
    machines: Machines

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = read_disk_spec(cloud_properties)
        require_size(size_mb)
        row = self.machines.read(vm_cid) if vm_cid else None
        zones = [spec.availability_zone] if spec.availability_zone else (row or {}).get("zones") or []
        body: Row = {
            "sku": {"name": spec.type},
            "tags": marked(mark, **{_CACHING: spec.caching}),
            "properties": {
                "creationData": {"createOption": "Empty"},
                "diskSizeGB": gib(size_mb),
                **({"diskIOPSReadWrite": spec.iops} if spec.iops else {}),
                **({"diskMBpsReadWrite": spec.mbps} if spec.mbps else {}),
            },
            **({"zones": zones} if zones else {}),
        }
        return self._create("disk", mark, body)

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        source = self.require(disk_cid)
        data = {"createOption": "Copy", "sourceResourceId": source["id"]}
        tags = marked(mark, **user_tags(metadata))
        return self._create("snapshot", mark, {"tags": tags, "properties": {"creationData": data, "incremental": True}})

    def _create(self, type_: Type, mark: Mark, body: Row) -> str:
        """What is there under the mark already is answered as it is: a PUT would change it."""
        found = self.client.get(type_, mark.name())
        if found is not None:
            require_marked(found, mark)
        if found is None or provisioning_state(found) != "succeeded":
            self.client.create(type_, mark.name(), body)
        return mark.name()

    def require(self, cid: str) -> Row:
        row = self.client.get("disk", cid)
        if row is None:
            raise disk_missing(cid[:80])
        return row

    def exists(self, cid: str) -> bool:
        return self.client.get("disk", cid) is not None

    def delete(self, cid: str) -> None:
        row = self.client.get("disk", cid)
        if row is not None:
            require_detached(cid, users(row))
            delete_disk(self.client, cid)

    def delete_snapshot(self, cid: str) -> None:
        self.client.delete("snapshot", cid)

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        """By the request for single disks, never by the whole VM: two writers would lose each other's disks. Of two at
        once Azure refuses one, which then looks again."""
        caching = self.require(disk_cid).get("tags", {}).get(_CACHING, "None")

        def attempt() -> Row | None:
            machine, disk = self.machines.require(vm_cid), self.require(disk_cid)
            entry = _entry(machine, disk["id"])
            if entry is None:
                require_detached(disk_cid, users(disk))
                lun = _free_lun(machine)
                wanted = {"diskId": disk["id"], "lun": lun, "caching": caching, "deleteOption": "Detach"}
                if not self._attach_or_detach(vm_cid, {"dataDisksToAttach": [wanted]}):
                    return None
                entry = _entry(self.machines.require(vm_cid), disk["id"])
            return None if entry is None else hint(machine, int(entry["lun"]))

        return self.client.waits.until(f"the attachment of disk {disk_cid}", attempt)

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        disk = self.require(disk_cid)
        if _entry(self.machines.require(vm_cid), disk["id"]) is None:
            raise DiskNotAttached(f"disk {disk_cid} is not attached to VM {vm_cid}", remedy="nothing is left to do")

        def attempt() -> bool | None:
            if _entry(self.machines.require(vm_cid), disk["id"]) is None:
                return True
            self._attach_or_detach(vm_cid, {"dataDisksToDetach": [{"diskId": disk["id"]}]})
            return None

        self.client.waits.until(f"the detachment of disk {disk_cid}", attempt)

    def _attach_or_detach(self, vm_cid: str, body: Row) -> bool:
        """False where another change of the VM is under way, or took the LUN meanwhile."""
        try:
            self.client.post("VM", vm_cid, "attachDetachDataDisks", body)
        except Refusal as error:
            if error.is_one("Conflict", "AnotherOperationInProgress", "OperationPreempted") or "LUN" in error.why:
                return False
            raise
        return True

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        self.client.patch("disk", cid, {"tags": merge_tags(self.require(cid), user_tags(metadata))})

    def update(self, cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place: size up, type, iops, throughput."""
        spec, row = read_disk_spec(cloud_properties), self.require(cid)
        properties: Row = {}
        require_growth(cid, int(row["properties"]["diskSizeGB"]), new_size_mb)
        require_detached(cid, users(row))
        if gib(new_size_mb) != int(row["properties"]["diskSizeGB"]):
            properties["diskSizeGB"] = gib(new_size_mb)
        for key, value in (("diskIOPSReadWrite", spec.iops), ("diskMBpsReadWrite", spec.mbps)):
            if value and value != row["properties"].get(key):
                properties[key] = value
        body: Row = {"properties": properties} if properties else {}
        if cloud_properties.get("type") and not is_same(spec.type, (row.get("sku") or {}).get("name")):
            body["sku"] = {"name": spec.type}
        if body:
            self.client.patch("disk", cid, body)


def delete_disk(client: Client, name: str) -> None:
    """One that is open for an upload is closed first."""
    row = client.get("disk", name)
    if row is not None and row["properties"].get("diskState") in OPEN:
        client.post("disk", name, "endGetAccess")
    client.delete("disk", name)


def users(row: Row) -> tuple[str, ...]:
    """Names of the VMs that a disk is attached to."""
    found = dict.fromkeys(filter(None, [row.get("managedBy"), *(row.get("managedByExtended") or ())]))
    return tuple(name_of(one).lower() for one in found)


def hint(machine: Row, lun: int) -> Row:
    """Where an agent finds the disk; on NVMe the name is that of azure-vm-utils."""
    if is_nvme(machine):
        return {"path": f"/dev/disk/azure/data/by-lun/{lun}"}
    return {"lun": str(lun), "host_device_id": SCSI}


def _entry(machine: Row, disk_id: str) -> Row | None:
    return next((one for one in attached(machine) if is_same(one["managedDisk"]["id"], disk_id)), None)


def _free_lun(machine: Row) -> int:
    taken = {int(one["lun"]) for one in machine["properties"]["storageProfile"].get("dataDisks") or ()}
    for lun in range(_LUNS):
        if lun not in taken:
            return lun
    raise CpiError(f"VM {machine['name']} has {_LUNS} data disks", remedy="detach one")
