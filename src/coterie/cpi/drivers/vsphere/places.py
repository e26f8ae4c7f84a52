"""Where things go: zones (clusters), their hosts and their datastores, chosen by free space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, NoPlacement
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.choice import Store, score
from coterie.cpi.drivers.vsphere.folders import Folders
from coterie.cpi.drivers.vsphere.order import Order
from coterie.cpi.drivers.vsphere.properties import ZoneSettings
from coterie.cpi.drivers.vsphere.reading import Row

_STORE = ("name", "summary.freeSpace", "summary.accessible", "summary.maintenanceMode", "browser")
HOST = (
    "name",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "summary.hardware.numCpuThreads",
    "summary.hardware.memorySize",
    "summary.quickStats.overallMemoryUsage",
    "parent",
)
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Zone:
    """One cluster of a zone: a zone may have several."""

    name: str
    cluster: Any
    cluster_name: str
    pool: Any
    datastores: tuple[str, ...]


class Places(Folders):
    _zones: dict[str, Zone] | None = None

    def zones(self) -> dict[str, Zone]:
        """By zone and cluster. Read once; what was added since is seen by a new driver object or by `check`."""
        if self._zones is None:
            self._zones = self.read_zones()
        return self._zones

    def read_zones(self) -> dict[str, Zone]:
        rows = self.reader.below(self.datacenter.host_folder, sdk.vim.ClusterComputeResource, "name", "resourcePool")
        clusters = {str(row.get("name")): row for row in rows}
        wanted = dict(self.settings.zones) or {name: ZoneSettings((name,)) for name in clusters}
        return {
            f"{name}/{cluster}": self._zone(name, cluster, one, clusters)
            for name, one in wanted.items()
            for cluster in one.clusters
        }

    def in_zone(self, name: str | None) -> list[Zone]:
        """The clusters of a zone; without a name, of the only one there is."""
        names = sorted({zone.name for zone in self.zones().values()})
        if name is None and len(names) > 1:
            raise InvalidCall("cloud_properties.zone is missing", remedy=f"use one of: {', '.join(names)}")
        if name is not None and name not in names:
            raise InvalidCall(f"cloud_properties.zone {name!r} is not known", remedy=f"use one of: {', '.join(names)}")
        return [zone for zone in self.zones().values() if name in (None, zone.name)]

    def stores(self, zones: Sequence[Zone], patterns: Sequence[str]) -> list[Store]:
        """Usable datastores that match and that all these clusters see; without any, those of the datacenter."""
        places = [zone.cluster for zone in zones] or [self.datacenter.ref]
        seen = [self.reader.one(place, "datastore").get("datastore") or [] for place in places]
        refs = [ref for ref in seen[0] if all(ref in others for others in seen[1:])]
        allowed = next((zone.datastores for zone in zones if zone.datastores), tuple(patterns))
        rows = self.reader.several(refs, sdk.vim.Datastore, _STORE)
        return [_store(row) for row in rows if _usable(row) and self.settings.may_use(row.get("name"), allowed)]

    def hosts(self, zone: Zone) -> list[Row]:
        """The zone's hosts that can run VMs now."""
        refs = self.reader.one(zone.cluster, "host").get("host") or []
        return [row for row in self.reader.several(refs, sdk.vim.HostSystem, HOST) if is_up(row)]

    def roomy(self, zones: Sequence[Zone], order: Order, seed: str) -> list[Zone]:
        """Clusters with a host that is large enough at all, best first: likelier the more memory is free. What is free
        on which host right now is DRS's business."""
        hosts = {zone.cluster._moId: self.hosts(zone) for zone in zones}
        fitting = [zone for zone in zones if any(_fits(row, order) for row in hosts[zone.cluster._moId])]
        if fitting:
            free = {zone.cluster_name: sum(free_mb(row) for row in hosts[zone.cluster._moId]) for zone in fitting}
            return sorted(
                fitting, key=lambda zone: score(zone.cluster_name, free[zone.cluster_name], seed), reverse=True
            )
        names = ", ".join(zone.cluster_name for zone in zones)
        raise NoPlacement(
            f"no host of cluster {names} can hold {order.cpu} cpu and {order.ram} MB",
            why="; ".join(_size(row) for rows in hosts.values() for row in rows) or "no host is up",
            remedy="ask for less, or add a larger host",
        )

    def _zone(self, name: str, cluster: str, wanted: ZoneSettings, clusters: dict[str, Row]) -> Zone:
        row = clusters.get(cluster)
        if row is None:
            raise CpiError(
                f"zone {name}: there is no cluster {cluster!r} in {self.datacenter.path}",
                remedy=f"use one of: {', '.join(sorted(clusters))}",
            )
        return Zone(name, row.ref, cluster, self._pool(name, row.get("resourcePool"), wanted), wanted.datastores)

    def _pool(self, zone: str, root: Any, wanted: ZoneSettings) -> Any:
        pool = root
        for part in (wanted.resource_pool or "").split("/"):
            if part:
                pool = self.link.ask(self.link.content.searchIndex.FindChild, pool, part)
            if pool is None:
                raise CpiError(
                    f"zone {zone}: there is no resource pool {wanted.resource_pool!r}",
                    remedy="create it, or leave it out",
                )
        return pool


def is_up(row: Row) -> bool:
    return row.get("runtime.connectionState") == "connected" and not row.get("runtime.inMaintenanceMode")


def free_mb(row: Row) -> int:
    """A host's memory that nothing uses now."""
    memory = (row.get("summary.hardware.memorySize") or 0) // _MIB
    return int(memory - (row.get("summary.quickStats.overallMemoryUsage") or 0))


def _usable(row: Row) -> bool:
    return bool(row.get("summary.accessible")) and row.get("summary.maintenanceMode", "normal") == "normal"


def _store(row: Row) -> Store:
    return Store(row.ref, str(row.get("name")), int(row.get("summary.freeSpace") or 0) // _MIB, row.get("browser"))


def _fits(row: Row, order: Order) -> bool:
    threads, memory = row.get("summary.hardware.numCpuThreads") or 0, row.get("summary.hardware.memorySize") or 0
    return bool(threads >= order.cpu and memory // _MIB >= order.ram)


def _size(row: Row) -> str:
    memory = (row.get("summary.hardware.memorySize") or 0) // _MIB
    return f"{row.get('name')} has {row.get('summary.hardware.numCpuThreads')} cpu and {memory} MB"
