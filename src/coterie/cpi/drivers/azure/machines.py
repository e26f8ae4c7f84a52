"""VMs that are there: read, deleted with all that came with them, rebooted, described; their sizes; and the one that
this process runs in."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from coterie.cpi.contract import Changed, Json, OutcomeUnknown, read_name
from coterie.cpi.drivers.azure.client import DISK, NIC, SCALE_SET, VM, Client, Refusal, Row, is_name, is_same, name_of
from coterie.cpi.drivers.azure.tags import merge_tags, user_tags
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.metadata_service import not_inside
from coterie.cpi.kit.sizes import Size, instance_type_for

METADATA = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
OS, EPHEMERAL = "os", "eph"  # what follows the mark in the names of a VM's own disks
MOST_NICS = 8  # of one VM
_RESERVED_S = 200.0  # a failed VM keeps its NICs for 180 seconds
_TRIES = 5
_STATES = {"running": "running", "stopped": "stopped", "deallocated": "stopped"}  # others pass: nothing is known


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client

    def read(self, cid: str) -> Row | None:
        return self.client.get(VM, cid, expand="instanceView")

    def exists(self, cid: str) -> bool:
        return self.client.get(VM, cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def list_all(self) -> list[Row]:
        """Without their power state and fault domain."""
        return list(self.client.list_type(VM))

    def list_with_power(self) -> list[Row]:
        """With their power states, which Azure lists for the whole subscription only."""
        path = f"{self.client.subscription}/providers/{VM}"
        states = {str(row["id"]).lower(): row for row in self.client.list_all("list states", path, statusOnly="true")}
        return [_with_view(row, states.get(str(row["id"]).lower())) for row in self.list_all()]

    def list_uses_of_images(self) -> list[tuple[str, str]]:
        """Ids of images with who uses them, in the whole subscription: VMs, and scale sets, which need the image for
        their next VM."""
        found = []
        for type_ in (VM, SCALE_SET):
            rows = self.client.list_all(f"list {type_}", f"{self.client.subscription}/providers/{type_}")
            for row in rows:
                profile = row["properties"].get("virtualMachineProfile") or row["properties"]
                image = ((profile.get("storageProfile") or {}).get("imageReference") or {}).get("id")
                if image:
                    found.append((str(image), self._user_name(str(row["id"]))))
        return found

    def _user_name(self, id_: str) -> str:
        """Those of other resource groups with the group's name: they are none of ours."""
        group = id_.split("/")[4]
        return (
            name_of(id_).lower() if is_same(group, self.client.settings.resource_group) else f"{group}/{name_of(id_)}"
        )

    def delete(self, cid: str) -> None:
        """The VM, and then by their names all that came with it: an answer that it is gone is no proof for them. Names
        that do not follow from a mark of ours have no such parts."""
        if is_name(cid):
            row = self.client.get(VM, cid)
            nics = (row or {"properties": {}})["properties"].get("networkProfile") or {}
            self.client.delete(f"delete VM {cid}", self.client.id(VM, cid))
            if read_name(cid):
                self.delete_parts(cid, len(nics.get("networkInterfaces") or ()) or MOST_NICS)

    def delete_parts(self, cid: str, nics: int) -> None:
        """`nics`: how many names are looked for, since any of them may be gone already."""
        for number in range(nics):
            if self.client.get(NIC, f"{cid}-{number}") is not None:
                self.delete_nic(f"{cid}-{number}")
        for part in (OS, EPHEMERAL):
            if self.client.get(DISK, f"{cid}-{part}") is not None:
                self.client.delete(f"delete disk {cid}-{part}", self.client.id(DISK, f"{cid}-{part}"))

    def delete_nic(self, name: str) -> None:
        """Waits while a VM that failed keeps it reserved."""
        deadline = time.monotonic() + min(_RESERVED_S, self.client.settings.state_timeout)
        while True:
            try:
                self.client.delete(f"delete NIC {name}", self.client.id(NIC, name))
                return
            except Refusal as error:
                if not error.is_one("NicReservedForAnotherVm"):
                    raise
                if time.monotonic() >= deadline:
                    raise OutcomeUnknown(
                        f"NIC {name} is still reserved for a VM that failed", why=error.why, remedy="repeat later"
                    ) from error
            time.sleep(self.client.settings.poll_s)

    def reboot(self, cid: str) -> None:
        row = self.require(cid)
        action = "start" if power_of(row) in ("stopped", "deallocated") else "restart"
        self.client.post(f"{action} VM {cid}", self.client.id(VM, cid), action)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        """Tags are replaced as a whole: another writer's are read again, and kept."""
        wanted = user_tags(metadata)
        for attempt in range(_TRIES):
            row = self.require(cid)
            try:
                self.client.patch(
                    f"describe VM {cid}", self.client.id(VM, cid), {"tags": merge_tags(row, wanted)}, row.get("etag")
                )
                return
            except Refusal as error:
                if error.kind is not Changed or attempt == _TRIES - 1:
                    raise

    def list_disks(self, cid: str) -> list[str]:
        """Persistent ones: those that were attached, not those that came with the VM."""
        return [name_of(disk["managedDisk"]["id"]).lower() for disk in attached(self.require(cid))]

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        sizes = [Size(str(row["name"]), cpu, ram) for row, cpu, ram in self._sizes()]
        return instance_type_for(requirements, sizes, "size", self.client.settings.location)

    def list_skus(self) -> list[Row]:
        where = f"location eq '{self.client.settings.location}'"
        path = f"{self.client.subscription}/providers/Microsoft.Compute/skus"
        return list(self.client.list_all("list sizes", path, filter=where))

    def current_id(self, url: str = METADATA) -> str:
        request = urllib.request.Request(url, headers={"Metadata": "true"})  # noqa: S310 # the address is fixed
        try:
            with urllib.request.urlopen(request, timeout=3.0) as answer:  # noqa: S310
                return str(json.loads(answer.read(2**20))["name"]).lower()
        except (OSError, ValueError, KeyError) as error:
            raise not_inside(url, error) from error

    def _sizes(self) -> list[tuple[Row, int, int]]:
        found = []
        for row in self.list_skus():
            own = {one["name"]: one["value"] for one in row.get("capabilities") or ()}
            if row.get("resourceType") == "virtualMachines" and "vCPUs" in own and not row.get("restrictions"):
                found.append((row, int(own["vCPUs"]), int(float(own["MemoryGB"]) * 1024)))
        return found


def power_of(row: Row) -> str:
    statuses = (row["properties"].get("instanceView") or {}).get("statuses") or ()
    return next((code.partition("/")[2] for code in _codes(statuses) if code.startswith("powerstate/")), "")


def _codes(statuses: tuple[Row, ...]) -> list[str]:
    return [str(one.get("code")).lower() for one in statuses]


def state_of(row: Row) -> str | None:
    """In the contract's words. A VM that runs does so whatever became of the last change: one that is being created
    runs long before its agent has answered, and one to which a disk could not be attached is in state Failed."""
    if power := power_of(row):
        return _STATES.get(power)
    return {"failed": "error", "creating": "building"}.get(str(row["properties"].get("provisioningState")).lower())


def _with_view(row: Row, state: Row | None) -> Row:
    view = ((state or {}).get("properties") or {}).get("instanceView")
    return {**row, "properties": {**row["properties"], "instanceView": view}} if view else row


def attached(row: Row) -> list[Row]:
    """The persistent disks of a VM."""
    listed = row["properties"]["storageProfile"].get("dataDisks") or ()
    return [one for one in listed if is_same(one.get("createOption"), "Attach") and not one.get("toBeDetached")]


def is_nvme(row: Row) -> bool:
    """Sizes from the sixth version on have no SCSI controller."""
    found = re.search(r"_v(\d+)$", str(row["properties"]["hardwareProfile"]["vmSize"]))
    return found is not None and int(found[1]) >= 6


def fault_domain(row: Row) -> str | None:
    return _domain(row, "platformFaultDomain")


def update_domain(row: Row) -> str | None:
    return _domain(row, "platformUpdateDomain")


def _domain(row: Row, key: str) -> str | None:
    found = (row["properties"].get("instanceView") or {}).get(key)
    return None if found is None else str(found)
