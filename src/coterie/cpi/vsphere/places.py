"""Where things go: zones (clusters), their hosts and their datastores, chosen by free space."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, NoDiskSpace, NoPlacement
from coterie.cpi.vsphere import sdk
from coterie.cpi.vsphere.folders import Folders
from coterie.cpi.vsphere.order import Order
from coterie.cpi.vsphere.properties import ZoneSettings
from coterie.cpi.vsphere.reading import Row

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
    name: str
    cluster: Any
    cluster_name: str
    pool: Any
    datastores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Store:
    ref: Any
    name: str
    free_mb: int
    browser: Any


class Places(Folders):
    _zones: dict[str, Zone] | None = None

    def zones(self) -> dict[str, Zone]:
        """Read once; what was added since is seen by a new driver object or by `check`."""
        if self._zones is None:
            self._zones = self.read_zones()
        return self._zones

    def read_zones(self) -> dict[str, Zone]:
        rows = self.reader.below(self.datacenter.host_folder, sdk.vim.ClusterComputeResource, "name", "resourcePool")
        clusters = {str(row.get("name")): row for row in rows}
        wanted = dict(self.settings.zones) or {name: ZoneSettings(name) for name in clusters}
        return {name: self._zone(name, one, clusters) for name, one in wanted.items()}

    def zone(self, name: str | None) -> Zone:
        zones = self.zones()
        if name is None and len(zones) == 1:
            return next(iter(zones.values()))
        if name is None:
            raise InvalidCall("cloud_properties.zone is missing", remedy=f"use one of: {', '.join(sorted(zones))}")
        if name not in zones:
            raise InvalidCall(
                f"cloud_properties.zone {name!r} is not known", remedy=f"use one of: {', '.join(sorted(zones))}"
            )
        return zones[name]

    def stores(self, zone: Zone | None, patterns: Sequence[str]) -> list[Store]:
        """Usable datastores that match, of one zone or of the whole datacenter."""
        ref, path = (zone.cluster, "datastore") if zone else (self.datacenter.ref, "datastore")
        refs = self.reader.one(ref, path).get(path) or []
        allowed = tuple(zone.datastores) if zone and zone.datastores else tuple(patterns)
        rows = self.reader.several(refs, sdk.vim.Datastore, _STORE)
        return [_store(row) for row in rows if _usable(row) and self.settings.may_use(row.get("name"), allowed)]

    def hosts(self, zone: Zone) -> list[Row]:
        """The zone's hosts that can run VMs now."""
        refs = self.reader.one(zone.cluster, "host").get("host") or []
        return [row for row in self.reader.several(refs, sdk.vim.HostSystem, HOST) if is_up(row)]

    def require_room(self, zone: Zone, order: Order) -> None:
        """Some host must be large enough at all; what is free right now is DRS's business."""
        hosts = self.hosts(zone)
        if any(_fits(row, order) for row in hosts):
            return
        raise NoPlacement(
            f"no host of cluster {zone.cluster_name} can hold {order.cpu} cpu and {order.ram} MB",
            why="; ".join(_size(row) for row in hosts) or "no host is connected and out of maintenance",
            remedy="ask for less, or add a larger host",
        )

    def _zone(self, name: str, wanted: ZoneSettings, clusters: dict[str, Row]) -> Zone:
        row = clusters.get(wanted.cluster)
        if row is None:
            raise CpiError(
                f"zone {name}: there is no cluster {wanted.cluster!r} in {self.datacenter.path}",
                remedy=f"use one of: {', '.join(sorted(clusters))}",
            )
        return Zone(name, row.ref, wanted.cluster, self._pool(name, row.get("resourcePool"), wanted), wanted.datastores)

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


def chosen(stores: Sequence[Store], seed: str, need_mb: int) -> Store:
    """A datastore with room, likelier the more it has: the same one for the same seed, so repeats agree, and
    different ones for many at once, so that they do not all run to the emptiest."""
    roomy = [store for store in stores if store.free_mb >= need_mb]
    if not roomy:
        free = ", ".join(f"{store.name}: {store.free_mb} MB" for store in stores)
        raise NoDiskSpace(
            f"no datastore has {need_mb} MB free", why=free or "no datastore matches", remedy="free space, or add one"
        )
    return max(roomy, key=lambda store: (_score(store, seed), store.name))


def is_up(row: Row) -> bool:
    return row.get("runtime.connectionState") == "connected" and not row.get("runtime.inMaintenanceMode")


def _score(store: Store, seed: str) -> float:
    digest = hashlib.sha256(f"{seed}/{store.name}".encode()).digest()
    share = (int.from_bytes(digest[:8]) + 1) / 2.0**64
    # the weight is coarse on purpose: a few megabytes must not change the choice between two repeats
    return -(2.0 ** math.floor(math.log2(store.free_mb + 1))) / math.log(share)


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
