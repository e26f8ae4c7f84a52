"""What all parts of the driver share: settings, the session, the datacenter. Nothing is asked before the first call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Cpi, CpiError, Runtime, VMNotFound
from coterie.cpi.drivers.vsphere.link import Link
from coterie.cpi.drivers.vsphere.marking import is_uuid
from coterie.cpi.drivers.vsphere.properties import read_settings
from coterie.cpi.drivers.vsphere.reading import Reader
from coterie.cpi.drivers.vsphere.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Datacenter:
    ref: Any
    path: str
    vm_folder: Any
    host_folder: Any


class VsphereCloud(Cpi):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self.settings = read_settings(properties)
        self.link = Link(self.settings)
        self.reader = Reader(self.link)
        self.tasks = Tasks(self.link, self.reader, self.settings.task_timeout)
        self._datacenter: Datacenter | None = None

    @property
    def datacenter(self) -> Datacenter:
        if self._datacenter is None:
            path = self.settings.datacenter.strip("/")
            ref = self.link.ask(self.link.content.searchIndex.FindByInventoryPath, path)
            if ref is None:
                raise CpiError(f"there is no datacenter {path!r}", remedy="check properties.datacenter")
            row = self.reader.one(ref, "vmFolder", "hostFolder")
            self._datacenter = Datacenter(ref, path, row.get("vmFolder"), row.get("hostFolder"))
        return self._datacenter

    def machine(self, cid: str) -> Any | None:
        """The VM or template with this id."""
        if not is_uuid(cid):
            return None
        return self.link.ask(self.link.content.searchIndex.FindByUuid, None, cid, True, True)

    def require_machine(self, cid: str) -> Any:
        found = self.machine(cid)
        if found is None:
            raise VMNotFound(f"there is no VM {cid}", remedy="deploy again, which makes it anew")
        return found
