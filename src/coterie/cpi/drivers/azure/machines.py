"""VMs that are there: read, deleted with all that came with them, rebooted, described; their sizes; and the one that
this process runs in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from coterie.cpi.contract import Json, read_name
from coterie.cpi.drivers.azure.client import Client, Row, Type, is_same, name_of, provisioning_state
from coterie.cpi.drivers.azure.tags import merge_tags, user_tags
from coterie.cpi.kit.calls import rewrite
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.metadata_service import not_inside, read_metadata
from coterie.cpi.kit.sizes import Size, instance_type_for
from coterie.slotted import dataclass

METADATA = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
OS, EPHEMERAL = "os", "eph"  # what follows the mark in the names of a VM's own disks
MOST_NICS = 8  # of one VM
_RESERVED_S = 200.0  # a failed VM keeps its NICs for 180 seconds
_STATES = {"running": "running", "stopped": "stopped", "deallocated": "stopped"}  # others pass: nothing is known


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client

    def read(self, cid: str) -> Row | None:
        return self.client.get("VM", cid, expand="instanceView")

    def exists(self, cid: str) -> bool:
        return self.client.get("VM", cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def list_all(self) -> list[Row]:
        """Without their power state and fault domain."""
        return list(self.client.list_type("VM"))

    def list_with_power(self) -> list[Row]:
        """With their power states, which Azure lists for the whole subscription only."""
        rows = self.client.list_type("VM", everywhere=True, statusOnly="true")
        states = {str(row["id"]).lower(): row for row in rows}
        return [_with_view(row, states.get(str(row["id"]).lower())) for row in self.list_all()]

    def list_uses_of_images(self) -> list[tuple[str, str]]:
        """Ids of images with who uses them, in the whole subscription: VMs, and scale sets, which need the image for
        their next VM."""
        found = []
        types: tuple[Type, ...] = ("VM", "scale set")
        for type_ in types:
            for row in self.client.list_type(type_, everywhere=True):
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
        row = self.client.get("VM", cid)
        self.client.delete("VM", cid)
        if not read_name(cid):
            return
        for number in range(len(nics_of(row) if row else ()) or MOST_NICS):  # any of them may be gone already
            if self.client.get("NIC", f"{cid}-{number}") is not None:
                self.delete_nic(f"{cid}-{number}")
        for part in (OS, EPHEMERAL):
            if self.client.get("disk", f"{cid}-{part}") is not None:
                self.client.delete("disk", f"{cid}-{part}")

    def delete_nic(self, name: str) -> None:
        """Waits while a VM that failed keeps it reserved."""
        what, limit = f"the release of NIC {name} by a VM that failed", self.client.settings.state_timeout
        delete = partial(self.client.delete, "NIC", name)
        self.client.repeat(what, delete, "NicReservedForAnotherVm", limit_s=min(_RESERVED_S, limit))

    def reboot(self, cid: str) -> None:
        row = self.require(cid)
        action = "start" if power_of(row) in ("stopped", "deallocated") else "restart"
        self.client.post("VM", cid, action)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        """Tags are replaced as a whole: another writer's are read again, and kept."""
        wanted = user_tags(metadata)

        def write(row: Row) -> None:
            self.client.patch("VM", cid, {"tags": merge_tags(row, wanted)}, row.get("etag"))

        rewrite(lambda: self.require(cid), write)

    def list_disks(self, cid: str) -> list[str]:
        """Persistent ones: those that were attached, not those that came with the VM."""
        return [name_of(disk["managedDisk"]["id"]).lower() for disk in attached(self.require(cid))]

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        return instance_type_for(requirements, list(self._sizes()), "size", self.client.settings.location)

    def list_skus(self) -> list[Row]:
        where = f"location eq '{self.client.settings.location}'"
        path = f"{self.client.subscription}/providers/Microsoft.Compute/skus"
        return list(self.client.list_all("list sizes", path, filter=where))

    def current_id(self, url: str = METADATA) -> str:
        try:
            return str(json.loads(read_metadata(url, headers={"Metadata": "true"}))["name"]).lower()
        except (ValueError, KeyError) as error:
            raise not_inside(url, error) from error

    def _sizes(self) -> Iterator[Size]:
        for row in self.list_skus():
            own = {one["name"]: one["value"] for one in row.get("capabilities") or ()}
            if row.get("resourceType") == "virtualMachines" and "vCPUs" in own and not row.get("restrictions"):
                yield Size(str(row["name"]), int(own["vCPUs"]), int(float(own["MemoryGB"]) * 1024))


def power_of(row: Row) -> str:
    """Azure's word, in lower case; nothing where it tells none."""
    statuses = (row["properties"].get("instanceView") or {}).get("statuses") or ()
    codes = [str(one.get("code")).lower() for one in statuses]
    return next((code.partition("/")[2] for code in codes if code.startswith("powerstate/")), "")


def state_of(row: Row) -> str | None:
    """In the contract's words. A VM that runs does so whatever became of the last change: one that is being created
    runs long before its agent has answered, and one to which a disk could not be attached is in state Failed."""
    if power := power_of(row):
        return _STATES.get(power)
    return {"failed": "error", "creating": "building"}.get(provisioning_state(row))


def _with_view(row: Row, state: Row | None) -> Row:
    view = ((state or {}).get("properties") or {}).get("instanceView")
    return {**row, "properties": {**row["properties"], "instanceView": view}} if view else row


def nics_of(row: Row) -> Sequence[Row]:
    """Its references to NICs."""
    return (row["properties"].get("networkProfile") or {}).get("networkInterfaces") or ()


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
