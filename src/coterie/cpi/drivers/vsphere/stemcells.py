"""Stemcells: imported once per mark, kept as templates, gone with all their replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, StemcellNotFound
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.choice import chosen
from coterie.cpi.drivers.vsphere.marking import instance_uuid
from coterie.cpi.drivers.vsphere.ovf import opened
from coterie.cpi.drivers.vsphere.refusals import Refusal, cloud_call
from coterie.cpi.drivers.vsphere.templates import Templates

_KEYS = ("name", "version", "template")
_TRIES = 3


class Stemcells(Templates):
    @cloud_call
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        """Of a file, or (a light stemcell) of a template that an operator keeps, named by its inventory path."""
        source = (cloud_properties or {}).get("template")
        if not source and not (image_path and Path(image_path).is_file()):
            raise InvalidCall(
                f"image_path {image_path!r} is no file", remedy="give the image, or cloud_properties.template"
            )
        for _ in range(_TRIES):
            if self._made(image_path, source, mark):
                return instance_uuid(mark)
        raise CpiError(
            f"template {mark.name()} is there and cannot be used",
            why="another object of the vCenter has that name",
            remedy="rename or remove it, then repeat",
        )

    @cloud_call
    def delete_stemcell(self, stemcell_cid: str) -> None:
        ref = self.machine(stemcell_cid)
        if ref is None:
            return
        name = str(self.reader.one(ref, "name").get("name"))
        for machine in [*self._replicas(name), ref]:
            try:
                self.tasks.run(machine.Destroy_Task)
            except Refusal as refusal:
                if not refusal.is_a("ManagedObjectNotFound"):
                    raise
        self.tidy("stemcells")

    def _made(self, image_path: str, source: str | None, mark: Mark) -> bool:
        """False where somebody else's attempt under this mark came to nothing, so that it must be tried again."""
        name = mark.name()
        try:
            machine = self._copied(source, name, mark) if source else self._uploaded(image_path, name, mark)
            self.sealed(machine)
        except Refusal as refusal:
            if not refusal.is_a("DuplicateName"):
                raise
            if self.machine(instance_uuid(mark)) is None:
                return False
            self.awaited(name)
        return True

    def _uploaded(self, image_path: str, name: str, mark: Mark) -> Any:
        zone = next(iter(self.zones().values()))
        need_mb = Path(image_path).stat().st_size // (1024 * 1024) + 1
        store = chosen(self.stores([zone], self.settings.datastores), mark.intent, need_mb)
        with opened(image_path) as package:
            return self.imported(package, name, mark, zone, store)

    def _copied(self, source: str, name: str, mark: Mark) -> Any:
        found = self.at(*source.strip("/").split("/"))
        if found is None:
            raise StemcellNotFound(f"there is no template {source!r}", remedy="give its path below the VM folder")
        zone = next(iter(self.zones().values()))
        location = sdk.vim.vm.RelocateSpec(pool=zone.pool, diskMoveType="moveAllDiskBackingsAndDisallowSharing")
        config = sdk.vim.vm.ConfigSpec(instanceUuid=instance_uuid(mark))
        spec = sdk.vim.vm.CloneSpec(location=location, powerOn=False, template=False, config=config)
        return self.tasks.run(found.CloneVM_Task, self.made_folder("stemcells"), name, spec)

    def _replicas(self, name: str) -> list[Any]:
        folder = self.folder("stemcells")
        if folder is None:
            return []
        rows = self.reader.children(folder, sdk.vim.VirtualMachine, "name")
        return [row.ref for row in rows if str(row.get("name")).startswith(f"{name[:60]}-on-")]
