"""Where VMs and disks go: zones (clusters), their hosts and their datastores, chosen by free space."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, NoDiskSpace, NoPlacement
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.inventory import ZONE, Attributes, Inventory
from coterie.cpi.drivers.vsphere.settings import Settings, VmProperties, ZoneSettings, matches
from coterie.slotted import dataclass

_STORE = (
    "name",
    "summary.freeSpace",
    "summary.accessible",
    "summary.maintenanceMode",
    "summary.multipleHostAccess",
    "browser",
)
_HOST = (
    "name",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "summary.hardware.numCpuThreads",
    "summary.hardware.memorySize",
    "summary.hardware.cpuMhz",
    "summary.quickStats.overallMemoryUsage",
    "parent",
)
ZONED = ("resourcePool", "customValue")  # properties of a VM that tell its zone
_MIB = 1024 * 1024
Patterns = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ZoneCluster:
    """One cluster of a zone: a zone may have several."""

    zone: str
    ref: Any
    name: str
    pool: Any
    settings: ZoneSettings
    drs: bool = True
    hosts: int = 1
    allowed: frozenset[str] | None = None  # ids of the hosts that a must rule of the zone allows

    @property
    def key(self) -> str:
        return f"{self.zone}/{self.name}"


@dataclass(frozen=True, slots=True)
class Host:
    ref: Any
    name: str
    threads: int
    memory_mb: int
    free_mb: int  # memory that nothing uses now
    mhz: int = 0  # of one core


@dataclass(frozen=True, slots=True)
class Store:
    ref: Any
    name: str
    free_mb: int
    browser: Any
    shared: bool  # more than one host can reach it


class Placement:
    """`zone_cids`: the CID of the group that all VMs of a zone are in → the zone."""

    def __init__(
        self,
        client: Client,
        inventory: Inventory,
        attributes: Attributes,
        settings: Settings,
        zone_cids: Mapping[str, str],
    ) -> None:
        self._client = client
        self._inventory = inventory
        self._attributes = attributes
        self._settings = settings
        self._zone_cids = zone_cids
        self._clusters: dict[str, ZoneCluster] | None = None

    @property
    def clusters(self) -> dict[str, ZoneCluster]:
        """By zone and name. Read once; clusters that were added later are seen after `refresh`."""
        return self._clusters if self._clusters is not None else self.refresh()

    def refresh(self) -> dict[str, ZoneCluster]:
        folder = self._inventory.datacenter.host_folder
        rows = self._client.list_below(
            folder, sdk.vim.ClusterComputeResource, "name", "resourcePool", "configurationEx", "host"
        )
        found = {str(row.get("name")): row for row in rows}
        zones = dict(self._settings.zones) or {name: ZoneSettings((name,)) for name in found}
        self._clusters = {
            f"{zone}/{name}": self._zone_cluster(zone, name, one, found)
            for zone, one in zones.items()
            for name in one.clusters
        }
        return self._clusters

    def in_zone(self, zone: str | None) -> list[ZoneCluster]:
        """The clusters of a zone; without a name, of the only one there is."""
        zones = sorted({one.zone for one in self.clusters.values()})
        if zone is None and len(zones) > 1:
            raise InvalidCall("cloud_properties.zone is missing", remedy=f"use one of: {', '.join(zones)}")
        if zone is not None and zone not in zones:
            raise InvalidCall(f"cloud_properties.zone {zone!r} is not known", remedy=f"use one of: {', '.join(zones)}")
        return [one for one in self.clusters.values() if zone in (None, one.zone)]

    def of_vm(self, machine: Any) -> list[ZoneCluster]:
        """The cluster that the VM is in, of its zone, if it is in one of our zones."""
        row = self._client.read(machine, *ZONED)
        found = self.clusters_of([row]).get(row.ref)
        return [found] if found else []

    def clusters_of(self, machines: Sequence[Row]) -> dict[Any, ZoneCluster]:
        """VM → its cluster, of its zone. `machines`: with the properties of `ZONED`. Of zones in one cluster it is that
        whose group the VM is in, else that of its resource pool."""
        pools = list({row.get("resourcePool") for row in machines} - {None})
        owners = {row.ref: row.get("owner") for row in self._client.read_all(pools, sdk.vim.ResourcePool, ["owner"])}
        found = {}
        for row in machines:
            pool, attributes = row.get("resourcePool"), self._attributes.by_name(row.get("customValue"))
            zone = self._zone_cids.get(attributes.get(ZONE, ""))
            there = [one for one in self.clusters.values() if one.ref == owners.get(pool)]
            if there:
                found[row.ref] = max(there, key=lambda one: (one.zone == zone, one.pool == pool))
        return found

    def list_hosts(self, cluster: ZoneCluster) -> list[Host]:
        """The cluster's hosts that can run VMs of the zone now."""
        refs = self._client.get(cluster.ref, "host") or []
        allowed = [ref for ref in refs if cluster.allowed is None or ref._moId in cluster.allowed]
        return [_host(row) for row in self._client.read_all(allowed, sdk.vim.HostSystem, _HOST) if _is_up(row)]

    def host_without_drs(self, cluster: ZoneCluster, seed: str) -> Any | None:
        """The host for a new VM or template where the cluster has no DRS: the vCenter refuses to choose one itself."""
        hosts = [] if cluster.drs else self.list_hosts(cluster)
        return max(hosts, key=lambda one: score(one.name, one.free_mb, seed)).ref if hosts else None

    def choose_store(
        self, clusters: Sequence[ZoneCluster], own: Patterns, disk: bool, seed: str, need_mb: int
    ) -> Store:
        """For a VM or (`disk`) a persistent disk. `own`: the patterns of its type; where its zone has patterns too,
        both must match."""
        stores = self.list_allowed_stores(clusters, own, disk=disk)
        if (roomy := find_roomy(stores, need_mb, seed)) is not None:
            return roomy
        free = ", ".join(f"{store.name}: {store.free_mb} MB" for store in stores)
        words, remedy = self.describe_allowed(clusters, own, disk=disk)
        why = free or f"no datastore {words}"
        raise NoDiskSpace(f"no datastore has {need_mb} MB free", why=why, remedy=f"free space, or add one{remedy}")

    def list_allowed_stores(self, clusters: Sequence[ZoneCluster], own: Patterns, *, disk: bool) -> list[Store]:
        """A datastore of a single host is none for what must be able to move."""
        found = self.list_stores(clusters, *self.patterns(clusters, own, disk=disk))
        return [one for one in found if one.shared or not self._wants_shared(clusters)]

    def describe_allowed(self, clusters: Sequence[ZoneCluster], own: Patterns, *, disk: bool) -> tuple[str, str]:
        """In words, and what else may be said to have more of them."""
        words = "matches " + " and ".join(", ".join(one) for one in self.patterns(clusters, own, disk=disk))
        if not self._wants_shared(clusters):
            return words, ""
        remedy = ", or say properties.local_datastores: true to use those of single hosts"
        return f"{words}, and is shared by several hosts", remedy

    def _wants_shared(self, clusters: Sequence[ZoneCluster]) -> bool:
        several = any(one.hosts > 1 for one in clusters or self.clusters.values())
        return several and not self._settings.local_datastores

    def patterns(self, clusters: Sequence[ZoneCluster], own: Patterns, *, disk: bool) -> list[Patterns]:
        zone, cloud = (clusters[0].settings if clusters else ZoneSettings(())), self._settings
        nearest = zone.persistent_datastores if disk else ()
        if not nearest and not (disk and cloud.persistent_datastores):
            nearest = zone.datastores
        if own or nearest:
            return [one for one in (tuple(own), nearest) if one]
        return [(disk and cloud.persistent_datastores) or cloud.datastores]

    def list_stores(self, clusters: Sequence[ZoneCluster], *patterns: Patterns) -> list[Store]:
        """Usable datastores that match all and that all these clusters see; without any, those of the datacenter."""
        places = [one.ref for one in clusters] or [self._inventory.datacenter.ref]
        seen = [self._client.get(place, "datastore") or [] for place in places]
        refs = [ref for ref in seen[0] if all(ref in others for others in seen[1:])]
        rows = self._client.read_all(refs, sdk.vim.Datastore, _STORE)
        usable = [_store(row) for row in rows if _is_usable(row)]
        return [store for store in usable if all(matches(store.name, one) for one in patterns)]

    def list_fitting(self, clusters: Sequence[ZoneCluster], size: VmProperties, seed: str) -> list[ZoneCluster]:
        """Clusters with a host that is large enough at all, best first: likelier the more memory is free. What is free
        on which host right now is for DRS to know."""
        hosts = {one.name: self.list_hosts(one) for one in clusters}
        fitting = [one for one in clusters if any(_fits(host, size) for host in hosts[one.name])]
        if fitting:
            free = {name: sum(host.free_mb for host in some) for name, some in hosts.items()}
            return sorted(fitting, key=lambda one: score(one.name, free[one.name], seed), reverse=True)
        known = [
            f"{host.name} has {host.threads} cpu and {host.memory_mb} MB" for some in hosts.values() for host in some
        ]
        raise NoPlacement(
            f"no host of cluster {', '.join(hosts)} can hold {size.cpu} cpu and {size.ram} MB",
            why="; ".join(known) or "no host is up",
            remedy="ask for less, or add a larger host",
        )

    def _zone_cluster(self, zone: str, name: str, wanted: ZoneSettings, found: dict[str, Row]) -> ZoneCluster:
        row = found.get(name)
        if row is None:
            raise CpiError(
                f"zone {zone}: there is no cluster {name!r} in {self._inventory.datacenter.path}",
                remedy=f"use one of: {', '.join(sorted(found))}",
            )
        pool = row.get("resourcePool")
        for part in (wanted.resource_pool or "").split("/"):
            if part:
                pool = self._client.query(self._client.content.searchIndex.FindChild, pool, part)
            if pool is None:
                raise CpiError(
                    f"zone {zone}: there is no resource pool {wanted.resource_pool!r}",
                    remedy="create it, or leave it out",
                )
        drs = getattr(row.get("configurationEx"), "drsConfig", None)
        is_on = drs is None or drs.enabled is not False
        allowed = _allowed_hosts(row, wanted)
        return ZoneCluster(zone, row.ref, name, pool, wanted, is_on, len(row.get("host") or ()), allowed)


def find_roomy(stores: Sequence[Store], need_mb: int, seed: str) -> Store | None:
    """One with enough space, likelier the more is free; the same one again for the same seed."""
    roomy = [store for store in stores if store.free_mb >= need_mb]
    return max(roomy, key=lambda store: score(store.name, store.free_mb, seed), default=None)


def score(name: str, free: int, seed: str) -> tuple[float, str]:
    """The highest wins: a random draw with the free space as weight, and always the same for one seed, so that repeats
    agree, and many at once do not all go to the emptiest."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    share = (int.from_bytes(digest[:8]) + 1) / 2.0**64
    # the weight is coarse on purpose: a few megabytes must not change the choice between two repeats
    return -(2.0 ** math.floor(math.log2(max(free, 0) + 1))) / math.log(share), name


def _host(row: Row) -> Host:
    memory = (row.get("summary.hardware.memorySize") or 0) // _MIB
    used = row.get("summary.quickStats.overallMemoryUsage") or 0
    threads = row.get("summary.hardware.numCpuThreads") or 0
    mhz = row.get("summary.hardware.cpuMhz") or 0
    return Host(row.ref, str(row.get("name")), int(threads), int(memory), int(memory - used), int(mhz))


def _allowed_hosts(cluster: Row, zone: ZoneSettings) -> frozenset[str] | None:
    if zone.host_group is None or zone.rule != "must":
        return None
    groups = getattr(cluster.get("configurationEx"), "group", None) or ()
    named = [one for one in groups if zone.host_group in (one.name, one.uniqueID)]
    return frozenset(ref._moId for one in named for ref in getattr(one, "host", None) or ())


def _is_up(row: Row) -> bool:
    return row.get("runtime.connectionState") == "connected" and not row.get("runtime.inMaintenanceMode")


def _fits(host: Host, size: VmProperties) -> bool:
    return host.threads >= size.cpu and host.memory_mb >= size.ram


def _store(row: Row) -> Store:
    free, shared = int(row.get("summary.freeSpace") or 0) // _MIB, row.get("summary.multipleHostAccess") is not False
    return Store(row.ref, str(row.get("name")), free, row.get("browser"), shared)


def _is_usable(row: Row) -> bool:
    return bool(row.get("summary.accessible")) and row.get("summary.maintenanceMode", "normal") == "normal"
