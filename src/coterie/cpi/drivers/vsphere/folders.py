"""Our folders in the inventory: `FOLDER/DIRECTOR/{vms,stemcells,groups}`. Made when needed, removed when empty."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import Any, Literal

from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.cloud import VsphereCloud
from coterie.cpi.drivers.vsphere.refusals import Refusal

Drawer = Literal["vms", "stemcells", "groups"]
_TRIES = 5


class Folders(VsphereCloud):
    def folder(self, drawer: Drawer, director_uuid: str | None = None) -> Any | None:
        """The folder of this Director, if it is there."""
        return self.at(*self._parts(drawer, director_uuid))

    def at(self, *parts: str) -> Any | None:
        """What lies below the datacenter's VM folder at this path."""
        path = "/".join((self.datacenter.path, "vm", *parts))
        return self.link.ask(self.link.content.searchIndex.FindByInventoryPath, path)

    def made_folder(self, drawer: Drawer) -> Any:
        found = self.folder(drawer)
        if found is not None:
            return found
        at = self.datacenter.vm_folder
        for name in self._parts(drawer):
            at = self.made_child(at, name)
        return at

    def made_child(self, parent: Any, name: str) -> Any:
        """The child folder of this name: found, or made by us or by somebody at the same time."""
        for left in reversed(range(_TRIES)):
            try:
                return self.link.change(parent.CreateFolder, name)
            except Refusal as refusal:
                if not refusal.is_a("DuplicateName"):
                    raise
                found = self.link.ask(self.link.content.searchIndex.FindChild, parent, name)
                if found is not None:
                    return found
                if not left:  # not renamed or removed between the two calls, but hidden from us
                    raise
        return None

    def occupants(self, folder: Any) -> list[str]:
        """Names of the VMs and vApps in a folder and in its folders; none if it is gone."""
        try:
            rows = self.reader.below(folder, sdk.vim.ManagedEntity, "name")
        except Refusal as refusal:
            if not refusal.is_a("ManagedObjectNotFound"):
                raise
            return []
        return [str(row.get("name")) for row in rows if not isinstance(row.ref, sdk.vim.Folder)]

    def tidy(self, drawer: Drawer) -> None:
        """Remove a folder of ours that holds nothing.

        It is renamed first, so that nobody finds it any more, and looked into again. A VM that slips in between would
        be unregistered, not destroyed; its maker notices and removes it. Who dies in between leaves a renamed folder,
        for the next one to remove.
        """
        parts = self._parts(drawer)
        for depth in (len(parts), len(parts) - 1):
            with suppress(Refusal):
                self._tidied(parts[:depth])

    def _tidied(self, parts: tuple[str, ...]) -> None:
        folder = self.at(*parts)
        if folder is not None and self._holds_something(folder):
            return
        if folder is not None:
            self.tasks.run(folder.Rename_Task, f"{parts[-1]}-{uuid.uuid4().hex[:8]}")
        for renamed in self._renamed(parts):
            if not self._holds_something(renamed):
                self.tasks.run(renamed.UnregisterAndDestroy_Task)
            elif self.at(*parts) is None:
                self.tasks.run(renamed.Rename_Task, parts[-1])

    def _renamed(self, parts: tuple[str, ...]) -> list[Any]:
        """Folders of ours on their way out, our own and those of the dead."""
        above = self.at(*parts[:-1]) if parts[:-1] else self.datacenter.vm_folder
        rows = self.reader.children(above, sdk.vim.Folder, "name") if above is not None else []
        leaving = re.compile(rf"{re.escape(parts[-1])}-[0-9a-f]{{8}}")
        return [row.ref for row in rows if leaving.fullmatch(str(row.get("name")))]

    def _holds_something(self, folder: Any) -> bool:
        return bool(self.reader.one(folder, "childEntity").get("childEntity"))

    def _parts(self, drawer: Drawer, director_uuid: str | None = None) -> tuple[str, ...]:
        return (*self.settings.folder.strip("/").split("/"), director_uuid or self.runtime.director_uuid, drawer)
