"""What users may write for a vSphere cloud: its properties, and the cloud_properties of VMs, disks and networks. Each
is read once and checked; a mistake is named by its field. No cloud is called here."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any

from coterie.cpi.contract import Form, Reader
from coterie.cpi.kit.readers import flag, mapping, one_of, pairs, seconds, size, text, texts, url_parts, whole
from coterie.slotted import dataclass, field


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """A zone is one or more clusters, or a resource pool or hosts in them. `datastores` empty: those of the whole
    cloud. `host_group`: an administrator's, of the hosts that all VMs of the zone must or should be on."""

    clusters: tuple[str, ...]
    resource_pool: str | None = None
    datastores: tuple[str, ...] = ()
    persistent_datastores: tuple[str, ...] = ()
    host_group: str | None = None
    rule: str = "must"


@dataclass(frozen=True, slots=True)
class Settings:
    """`zones` empty: every cluster of the datacenter is a zone of its own name."""

    url: str
    user: str
    password: str
    datacenter: str
    zones: Mapping[str, ZoneSettings] = field(default_factory=dict)
    datastores: tuple[str, ...] = ("*",)
    persistent_datastores: tuple[str, ...] = ()
    local_datastores: bool = False
    folder: str = "coterie"
    network: str | None = None
    agent_settings: str = "cdrom"
    agent: Mapping[str, Any] = field(default_factory=dict)
    linked_clones: bool = True
    ca_cert: str | None = None
    insecure: bool = False
    settle_s: float = 30.0
    task_timeout: float = 1800.0
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Settings(url={self.url!r}, user={self.user!r}, datacenter={self.datacenter!r})"


@dataclass(frozen=True, slots=True)
class VmProperties:
    """Sizes are MB, as everywhere in BOSH. `vmx`: further settings of the VM, handed on as they are; `vmx_options` is
    BOSH's word for it. `vm_group`: an administrator's DRS VM group that the VM joins."""

    cpu: int = 1
    ram: int = 1024
    disk: int = 0
    zone: str | None = None
    datastores: tuple[str, ...] = ()
    vmx: Mapping[str, str] = field(default_factory=dict)
    vmx_options: Mapping[str, str] = field(default_factory=dict)
    vm_group: str | None = None
    root_disk_size_gb: int = 0
    cpu_reserve_full_mhz: bool = False
    memory_reservation_locked_to_max: bool = False
    cpu_hot_add_enabled: bool = False
    memory_hot_add_enabled: bool = False
    nested_hardware_virtualization: bool = False


@dataclass(frozen=True, slots=True)
class DiskProperties:
    type: str = "thin"
    zone: str | None = None
    datastores: tuple[str, ...] = ()


def read_settings(properties: Mapping[str, Any]) -> Settings:
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_properties(properties: Mapping[str, Any] | None) -> VmProperties:
    return VmProperties(**VM.read(properties or {}, "cloud_properties"))


def read_disk_properties(properties: Mapping[str, Any] | None) -> DiskProperties:
    return DiskProperties(**DISK.read(properties or {}, "cloud_properties"))


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _url(value: Any) -> str:
    where = url_parts(value)
    if where.scheme == "https" and where.hostname:
        return str(value).rstrip("/")
    if where.scheme == "http" and where.hostname and _is_loopback(where.hostname):
        return str(value).rstrip("/")
    raise ValueError("give https://HOST[:PORT]; plain http goes to loopback addresses only")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _patterns(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("give a list of names; * and ? stand for any characters")


def _zones(value: Any) -> dict[str, ZoneSettings]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("write zones: {z1: {cluster: NAME}}")
    return {str(name): _zone(str(name), one) for name, one in value.items()}


def _zone(name: str, value: Any) -> ZoneSettings:
    if not isinstance(value, Mapping) or ("cluster" in value) == ("clusters" in value):
        raise ValueError(f"zone {name}: name its cluster, or its clusters")
    unknown = sorted(set(value) - {"cluster", *_ZONE})
    if unknown:
        raise ValueError(f"zone {name}: {unknown[0]} is not known; use cluster, {', '.join(_ZONE)}")
    if "rule" in value and not value.get("host_group"):
        raise ValueError(f"zone {name}: a rule without a host_group; name the host group, or leave it out")
    given = {"clusters": [value["cluster"]] if "cluster" in value else value["clusters"], **value}
    return ZoneSettings(**{key: _zone_value(name, key, given[key]) for key in _ZONE if given.get(key)})


def _zone_value(zone: str, key: str, value: Any) -> Any:
    try:
        return _ZONE[key](value)
    except ValueError as error:
        raise ValueError(f"zone {zone}: {key}: {error}") from error


def _vmx(value: Any) -> dict[str, str]:
    found = pairs(value)
    if any(key.startswith(("coterie", "guestinfo.coterie")) for key in found):
        raise ValueError("use keys that do not begin with coterie")
    return found


_ZONE: Mapping[str, Reader] = {
    "clusters": _patterns,
    "resource_pool": text,
    "datastores": _patterns,
    "persistent_datastores": _patterns,
    "host_group": text,
    "rule": one_of("must", "should"),
}
_READERS: Mapping[str, Reader] = {
    "url": _url,
    "user": text,
    "password": text,
    "datacenter": text,
    "zones": _zones,
    "datastores": _patterns,
    "persistent_datastores": _patterns,
    "local_datastores": flag,
    "folder": text,
    "network": text,
    "agent_settings": one_of("cdrom", "guestinfo"),
    "agent": mapping,
    "linked_clones": flag,
    "ca_cert": text,
    "insecure": flag,
    "settle_s": seconds,
    "task_timeout": seconds,
    "max_parallel_calls": size,
    "keep": texts,
}
_ABSENT = "this driver does not have it"
_NSX = (_ABSENT, "have the administrator make segments as port groups, and load balancers and groups in NSX")
_GPU = (_ABSENT, "have the administrator make VMs with hosts' devices, and enroll them")
# properties of BOSH's own CPI
_UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    "datacenters": (
        "clusters belong to the cloud here",
        "name clusters, resource pools and datastores as properties.zones of the cloud, and say zone here",
    ),
    "host_group": (
        "a zone of the cloud has it",
        "say host_group and rule in properties.zones, or in placement for one instance group",
    ),
    "drs_rules": ("rules follow server groups here", "say placement.policy, or groups.policy of coterie-cpi"),
    "disable_drs": (_ABSENT, "have the administrator set the override of the VM's DRS level"),
    "storage_policy": (_ABSENT, "name datastores that have the policy as their default, by datastores"),
    "tags": (_ABSENT, "use custom attributes: VMs bear their metadata as these"),
    "nsxt": _NSX,
    "nsx": _NSX,
    "pci_passthroughs": _GPU,
    "vgpus": _GPU,
    "device_groups": _GPU,
    "upgrade_hw_version": (_ABSENT, "use a stemcell with the hardware version that VMs shall have"),
}
_REQUIRED = {
    "url": "name the vCenter: https://vcenter.example.com",
    "user": "name the user, as user@domain",
    "password": "give the user's password",
    "datacenter": "name the datacenter",
}
_NAMES = frozenset({"url", "datacenter", "datastores", "folder", "keep", "network", "persistent_datastores", "zones"})
CLOUD = Form(
    _READERS,
    needed=_REQUIRED,
    secret=True,
    public=_NAMES,
    example={
        "url": "https://vcenter.example.com",
        "user": "coterie@vsphere.local",
        "password": "PASSWORD",
        "datacenter": "dc1",
        "zones": {"z1": {"cluster": "cluster1"}},
    },
)
VM = Form(
    {
        "cpu": size,
        "ram": size,
        "disk": whole(0),
        "zone": text,
        "datastores": _patterns,
        "vmx": _vmx,
        "vmx_options": _vmx,
        "vm_group": text,
        "root_disk_size_gb": size,
        "cpu_reserve_full_mhz": flag,
        "memory_reservation_locked_to_max": flag,
        "cpu_hot_add_enabled": flag,
        "memory_hot_add_enabled": flag,
        "nested_hardware_virtualization": flag,
    },
    example={"cpu": 2, "ram": 4096, "disk": 10240},
    unsupported=_UNSUPPORTED,
)
_DISK_TYPES = ("thin", "thick", "preallocated", "eagerZeroedThick")
DISK = Form(
    {"type": one_of(*_DISK_TYPES), "zone": text, "datastores": _patterns},
    unsupported={key: _UNSUPPORTED[key] for key in ("storage_policy", "tags")},
)
NETWORK = Form({"name": text}, example={"name": "VM Network"}, unsupported={"nsxt": _UNSUPPORTED["nsxt"]})
