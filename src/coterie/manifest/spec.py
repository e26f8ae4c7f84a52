"""The specs of instance groups: a manifest with every name resolved, as the planner compares it with the ledger.

Plain frozen data. Nothing here grows with the number of instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coterie.cpi.contract import SecurityGroup
from coterie.manifest.addresses import AddressList, free_addresses, netmask
from coterie.manifest.server_groups import ServerGroupSpec
from coterie.manifest.spans import Ranges

Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AzSpec:
    """`vm_properties`: the az's own cloud_properties with the vm type's on top.

    `conductor_group`: of the instance group, else of the az; None: the cloud's.
    """

    name: str
    cloud: str
    cloud_properties: Properties
    vm_properties: Properties
    conductor_group: str | None = None


@dataclass(frozen=True, slots=True)
class PersistentDiskSpec:
    size_mb: int
    cloud_properties: Properties


@dataclass(frozen=True, slots=True)
class DiskSourceSpec:
    """The instance group whose kept disks new nodes take. `deployment` None: of the same one."""

    deployment: str | None
    instance_group: str


@dataclass(frozen=True, slots=True)
class MigrationSpec:
    """An instance group whose nodes become nodes of another one. `az`: only those there, and they may leave it."""

    name: str
    az: str | None


@dataclass(frozen=True, slots=True)
class StemcellSpec:
    """`by_os`: `name` is an operating system, and any stemcell with it will do."""

    name: str
    version: str
    by_os: bool = False


@dataclass(frozen=True, slots=True)
class SubnetSpec:
    """`range` None: the cloud chooses addresses here. `azs` empty: it serves all of them."""

    range: str | None
    gateway: str | None
    dns: tuple[str, ...]
    reserved: tuple[str, ...]
    static: tuple[str, ...]
    azs: tuple[str, ...]
    cloud_properties: Properties

    @property
    def netmask(self) -> str | None:
        return netmask(self.range) if self.range else None

    def free(self) -> Ranges:
        """The addresses that may be given to nodes without static ones; measured anew on each call."""
        return free_addresses(self.range, self.gateway, self.reserved, self.static) if self.range else Ranges()


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """`by_az`: for each az of the group, the subnets that serve it; there is at least one.

    `static_ips[n]` belongs to instance n; empty where addresses are chosen. `default`: dns, gateway, both or none.
    """

    name: str
    type: Literal["manual", "dynamic", "vip"]
    default: tuple[str, ...]
    by_az: Mapping[str, tuple[SubnetSpec, ...]]
    static_ips: AddressList


@dataclass(frozen=True, slots=True)
class HealthCheckSpec:
    kind: Literal["none", "tcp", "http"]
    port: int | None
    path: str
    expect: int
    interval_s: float
    timeout_s: float
    recreate_after: int


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """`max_in_flight` is at least 1; `canaries` at most the number of instances."""

    canaries: int
    max_in_flight: int
    canary_watch_s: float
    update_watch_s: float
    serial: bool


@dataclass(frozen=True, slots=True)
class InstanceGroupSpec:
    """One instance group. `server_group` None: the cloud places its nodes freely."""

    name: str
    instances: int
    azs: tuple[AzSpec, ...]
    vm_type: str
    disk: PersistentDiskSpec | None
    stemcell: StemcellSpec
    networks: tuple[NetworkSpec, ...]
    env: Properties
    user_data: str | None
    tags: Mapping[str, str]
    health: HealthCheckSpec
    security_groups: tuple[SecurityGroup, ...]
    server_group: ServerGroupSpec | None
    update: UpdateSpec
    conductor_group: str | None = None  # its own
    disk_from: DiskSourceSpec | None = None
    migrated_from: tuple[MigrationSpec, ...] = ()
