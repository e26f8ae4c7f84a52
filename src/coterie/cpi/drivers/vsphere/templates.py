"""Templates that VMs are cloned from: one per stemcell, and a replica on every further datastore that needs one."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.choice import Store
from coterie.cpi.drivers.vsphere.imports import Imports
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.refusals import Refusal

_SNAPSHOT = "coterie"
_PATHS = ("name", "config.template", "datastore", "rootSnapshot", "config.hardware.device")
_WAIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Template:
    ref: Any
    name: str
    stores: tuple[str, ...]  # ids of the datastores that it lies on
    snapshot: Any | None
    devices: list[Any]


class Templates(Imports):
    def template(self, cid: str) -> Template:
        ref = self.machine(cid)
        row = self.reader.one(ref, *_PATHS) if ref is not None else None
        if ref is None or row is None or not row.get("config.template"):
            raise StemcellNotFound(f"there is no stemcell {cid}", remedy="upload the stemcell again")
        return _template(row.ref, row.values)

    def near(self, template: Template, zone: Zone, store: Store) -> Template:
        """The template itself, or its replica on this datastore, made if it is missing."""
        if store.ref._moId in template.stores:
            return template
        name = replica_name(template.name, store.name)
        folder = self.made_folder("stemcells")
        location = sdk.vim.vm.RelocateSpec(
            datastore=store.ref, pool=zone.pool, diskMoveType="moveAllDiskBackingsAndDisallowSharing"
        )
        spec = sdk.vim.vm.CloneSpec(location=location, powerOn=False, template=False)
        try:
            made = self.tasks.run(template.ref.CloneVM_Task, folder, name, spec)
            self.sealed(made)
        except Refusal as refusal:
            if not refusal.is_a("DuplicateName"):
                raise
            made = self.awaited(name)
        return _template(made, self.reader.one(made, *_PATHS).values)

    def sealed(self, machine: Any) -> None:
        """From an imported VM to a template: its snapshot is what linked clones grow from."""
        if not self.reader.one(machine, "rootSnapshot").get("rootSnapshot"):
            self.tasks.run(machine.CreateSnapshot_Task, _SNAPSHOT, "base of linked clones", False, False)
        self.link.change(machine.MarkAsTemplate)

    def awaited(self, name: str) -> Any:
        """The template that somebody else is making under this name."""
        give_up, pause = time.monotonic() + _WAIT_S, 0.01
        while time.monotonic() < give_up:
            found = self.at(*self._parts("stemcells"), name)
            if found is not None and self.reader.one(found, "config.template").get("config.template"):
                return found
            if found is None:
                break
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)
        raise OutcomeUnknown(
            f"template {name} is made by somebody else and was not seen whole",
            remedy="repeat; if it stays so, delete that VM in the vCenter",
        )


def replica_name(name: str, store: str) -> str:
    """A name of the same mark, one per datastore."""
    return f"{name[:60]}-on-{hashlib.sha256(store.encode()).hexdigest()[:10]}"


def _template(ref: Any, values: dict[str, Any]) -> Template:
    snapshots = values.get("rootSnapshot") or []
    stores = tuple(one._moId for one in values.get("datastore") or ())
    devices = list(values.get("config.hardware.device") or ())
    return Template(ref, str(values.get("name")), stores, snapshots[0] if snapshots else None, devices)
