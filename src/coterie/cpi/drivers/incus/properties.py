"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import POLICIES, Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.readers import readers_of, size, text, whole
from coterie.slotted import dataclass, field

SOCKET = "/var/lib/incus/unix.socket"
CONTAINER, MACHINE = "container", "virtual-machine"  # types of instances
_OURS = (
    *("user.coterie-", "user.user-data", "boot.autostart", "limits.cpu", "limits.memory", "volatile."),
    "placement.group",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/incus.md says what each is for."""

    socket: str | None = None
    url: str | None = None
    client_cert: str | None = None
    client_key: str | None = field(default=None, repr=False)
    trust_token: str | None = field(default=None, repr=False)
    server_cert: str | None = None
    project: str = "default"
    storage_pool: str = "default"
    default_type: str = CONTAINER
    default_cluster_group: str | None = None
    default_network: str | None = None
    default_security_groups: tuple[str, ...] = ()
    memory_limits: bool = True
    cpu_ratio: int = 16
    policies: frozenset[str] = frozenset(POLICIES)
    connect_timeout: float = 10.0
    request_timeout: float = 60.0
    retries: int = 5
    state_timeout: float = 300.0
    poll_s: float = 0.1
    settle_s: float = 30.0
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()
    agent: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class VmSpec:
    """`memory`, `root_disk` and `ephemeral_disk` in MiB."""

    cpu: int
    memory: int
    type: str | None = None
    root_disk: int | None = None
    ephemeral_disk: int = 0
    cluster_group: str | None = None
    profiles: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    storage_pool: str | None = None
    cluster_group: str | None = None
    type: str | None = None


def read_settings(properties: Mapping[str, Any]) -> Settings:
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _read_url(value: Any) -> str:
    if isinstance(value, str) and value.startswith("https://"):
        return readers.url(value)
    raise ValueError("give a URL like https://incus.example.org:8443")


def _read_config(value: Any) -> dict[str, str]:
    found = readers.pairs(value)
    if any(key.startswith(_OURS) for key in found):
        raise ValueError(f"use keys of instances that begin with none of: {', '.join(_OURS)}")
    return found


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "socket" in values and "url" in values:
        yield PropertyMistake("socket", "stands beside url", "say one way to reach Incus only")
    if "url" in values:
        for key in ("client_cert", "client_key", "server_cert"):
            if key not in values:
                yield PropertyMistake(key, "is missing", "give it as PEM text; docs/incus.md says how to get it")
    else:
        for key in ("client_cert", "client_key", "server_cert", "trust_token"):
            if key in values:
                yield PropertyMistake(key, "has no url", "name the url that it is for")


CLOUD = Form(
    readers_of(
        Settings,
        url=_read_url,
        default_type=readers.one_of(CONTAINER, MACHINE),
        policies=readers.some_of(*POLICIES),
        cpu_ratio=whole(1, 100),
    ),
    between=_check_cloud,
    secret=True,
    public=frozenset(
        {"socket", "url", "project", "storage_pool", "default_cluster_group", "default_network", "policies", "keep"}
        | {"default_security_groups", "default_type"}
    ),
    example={"socket": SOCKET, "default_network": "NETWORK"},
)
VM = Form(
    readers_of(
        VmSpec,
        cpu=size,
        memory=size,
        type=readers.one_of(CONTAINER, MACHINE),
        root_disk=size,
        ephemeral_disk=whole(0),
        config=_read_config,
    ),
    needed={"cpu": "give a number of CPUs", "memory": "give MiB"},
    example={"cpu": 1, "memory": 512},
)
DISK = Form({"storage_pool": text, "cluster_group": text, "type": readers.one_of(CONTAINER, MACHINE)})
NETWORK = Form({"network": text, "parent": text, "security_groups": readers.texts}, example={"network": "NETWORK"})
