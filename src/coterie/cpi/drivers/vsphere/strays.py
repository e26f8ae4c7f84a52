"""Whether our folders are where we look for them. One that is absent was never made, or was renamed, or the `folder`
property was changed: VMs with our mark elsewhere tell."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import Kind
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.folders import Drawer, Folders
from coterie.cpi.drivers.vsphere.marking import vm_mark

_DRAWERS: dict[str, Drawer] = {"vm": "vms", "image": "stemcells"}


class Strays(Folders):
    def in_place(self, kind: Kind, director_uuid: str) -> bool:
        """False: what was listed below our folder proves nothing about what is not there."""
        drawer = _DRAWERS.get(kind)
        parts = self._parts(drawer, director_uuid) if drawer else self._parts("vms", director_uuid)[:-1]
        return self.at(*parts) is not None or not self._strays(director_uuid)

    def _strays(self, director_uuid: str) -> set[Any]:
        """VMs and templates with this Director's mark that lie in none of its folders."""
        place = self.datacenter
        marked = {
            row.ref
            for row in self.reader.machines(place.ref, place.vm_folder, "name", "config.instanceUuid")
            if vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), director_uuid)
        }
        return marked - self._below("vms", director_uuid) - self._below("stemcells", director_uuid)

    def _below(self, drawer: Drawer, director_uuid: str) -> set[Any]:
        folder = self.folder(drawer, director_uuid)
        rows = self.reader.below(folder, sdk.vim.VirtualMachine, "name") if folder is not None else []
        return {row.ref for row in rows}
