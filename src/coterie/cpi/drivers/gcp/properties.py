"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Names are those of the BOSH Google CPI where they mean the same. Touches no cloud."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.cpi.contract import Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.readers import one_of, readers_of, size, whole
from coterie.cpi.kit.settings import HttpSettings
from coterie.slotted import dataclass, field

SPREAD_POLICIES = ("anti-affinity", "soft-anti-affinity")
HOST_POLICY = "host-affinity"  # only where `policies` names it: sole-tenant nodes are paid for
DOMAINS = 8  # of one spread policy, in a zone
NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY, _LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")
_IMAGE = re.compile(r"(?:https://[^/]+/compute/v1/)?(?:projects/[^/]+/)?global/images/(?:family/)?[a-z][-a-z0-9]{0,62}")
_BALANCER = "add the VMs to it by their addresses or its network tag"
_FREE = ("preemptible VMs end at any time", "leave it out")
UNIVERSE = "googleapis.com"
Name = str  # as Google takes it


@dataclass(frozen=True, slots=True)
class Settings(HttpSettings):
    """Every property by its name; docs/gcp.md says what each is for."""

    project: str = ""
    region: Name = ""
    json_key: Mapping[str, Any] | None = field(default=None, repr=False)
    credentials_source: str | None = None
    credentials_file: str | None = None
    xpn_host_project_id: str | None = None
    universe_domain: str = UNIVERSE
    default_zone: Name | None = None
    default_network: Name = "default"
    default_subnetwork: Name | None = None
    default_root_disk_size_gb: int | None = None
    default_root_disk_type: Name = "pd-balanced"
    default_tags: tuple[Name, ...] = ()
    service_account: str | None = None
    service_scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)
    stemcell_bucket: str | None = None
    availability_domains: int = DOMAINS
    policies: frozenset[str] = frozenset(SPREAD_POLICIES)
    request_timeout: float = 130.0
    page_size: int = 500

    @property
    def network_project(self) -> str:
        """That of networks and firewall rules: of a shared VPC its host project."""
        return self.xpn_host_project_id or self.project


@dataclass(frozen=True, slots=True)
class VmSpec:
    """Either `machine_type`, or `cpu` and `ram` in MiB."""

    machine_type: str | None = None
    cpu: int | None = None
    ram: int | None = None
    zone: Name | None = None
    root_disk_size_gb: int | None = None
    root_disk_type: Name | None = None
    ephemeral_disk_size_gb: int | None = None
    ephemeral_disk_type: Name = "pd-balanced"
    tags: tuple[Name, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    service_account: str | None = None
    service_scopes: tuple[str, ...] | None = None
    automatic_restart: bool = True
    on_host_maintenance: str = "MIGRATE"
    ip_forwarding: bool = False
    public_key: str | None = None

    @property
    def size(self) -> str:
        return self.machine_type or f"custom-{self.cpu}-{self.ram}"


@dataclass(frozen=True, slots=True)
class DiskSpec:
    type: Name = "pd-balanced"
    zone: Name | None = None
    iops: int | None = None
    throughput: int | None = None


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    network_name: Name | None = None
    subnetwork_name: Name | None = None
    tags: tuple[Name, ...] = ()


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def is_image(link: str) -> bool:
    return _IMAGE.fullmatch(link) is not None


def _read_key(value: Any) -> Mapping[str, Any]:
    """As a mapping, or the JSON text of the file."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if isinstance(found, Mapping) and found.get("client_email") and found.get("private_key"):
        return {str(key): one for key, one in found.items()}
    raise ValueError("give the content of a service account's JSON key file")


def _name(value: Any) -> str:
    if isinstance(value, str) and NAME.fullmatch(value):
        return value
    raise ValueError("write lower-case letters, digits and hyphens, at most 63, a letter first")


def _names(value: Any) -> tuple[str, ...]:
    return tuple(_name(one) for one in readers.texts(value))


def _read_labels(value: Any) -> dict[str, str]:
    found = readers.pairs(value)
    for key, one in found.items():
        if key.startswith("coterie-") or not _LABEL_KEY.fullmatch(key) or not _LABEL.fullmatch(one):
            raise ValueError("use lower-case letters, digits, _ and -, at most 63; no key begins with coterie-")
    return found


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    """Who calls is always said: on a machine of Google the usual chain would take the machine's own account."""
    ways = [name for name in ("json_key", "credentials_source") if name in values]
    if len(ways) != 1:
        remedy = "give json_key, or credentials_source: metadata or federation"
        what = "is not the only one" if ways else "is missing"
        yield PropertyMistake(ways[0] if ways else "json_key", what, remedy)
    if (values.get("credentials_source") == "federation") != ("credentials_file" in values):
        yield PropertyMistake(
            "credentials_file", "is wrong", "give it with credentials_source: federation, and only then"
        )


def _check_vm(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    custom = [key for key in ("cpu", "ram") if key in values]
    if ("machine_type" in values) == bool(custom) or len(custom) == 1:
        yield PropertyMistake("machine_type", "is wrong or missing", "give machine_type, or both cpu and ram in MiB")


_READERS: Mapping[str, Callable[[Any], Any]] = {"Name": _name, "tuple[Name, ...]": _names, "int": size}
CLOUD = Form(
    readers_of(
        Settings,
        _READERS,
        json_key=_read_key,
        credentials_source=one_of("metadata", "federation"),
        availability_domains=whole(1, DOMAINS),
        policies=readers.some_of(*SPREAD_POLICIES, HOST_POLICY),
        page_size=whole(1, 500),
    ),
    needed={"project": "name the project by its id", "region": "name the region, like europe-west1"},
    between=_check_cloud,
    secret=True,
    public=frozenset(
        {
            *("project", "region", "credentials_source", "credentials_file", "xpn_host_project_id", "universe_domain"),
            *("endpoint", "default_zone", "default_network", "default_subnetwork", "default_root_disk_type"),
            *("default_tags", "service_account", "service_scopes", "stemcell_bucket", "policies", "keep"),
        }
    ),
    example={
        "project": "PROJECT",
        "region": "europe-west1",
        "json_key": {
            "type": "service_account",
            "client_email": "ACCOUNT",
            "private_key": "KEY",
            "token_uri": "https://oauth2.googleapis.com/token",
        },
        "default_zone": "europe-west1-b",
        "default_network": "machines",
        "default_subnetwork": "machines",
        "stemcell_bucket": "BUCKET",
    },
)
VM = Form(
    readers_of(VmSpec, _READERS, labels=_read_labels, on_host_maintenance=one_of("MIGRATE", "TERMINATE")),
    between=_check_vm,
    example={"machine_type": "e2-small"},
    unsupported={
        "target_pool": ("balancers are not this driver's business", _BALANCER),
        "backend_service": ("balancers are not this driver's business", _BALANCER),
        "preemptible": _FREE,
        "provisioning_model": _FREE,
        "ephemeral_external_ip": ("addresses are never made", "reserve one, and name it in a network of type vip"),
        "node_group": ("server groups have a life of their own", "adopt it by placement.policy: host-affinity"),
        "accelerators": ("machines with them cannot be tried here", "use a machine type that has them built in"),
    },
)
DISK = Form(readers_of(DiskSpec, _READERS))
NETWORK = Form(
    readers_of(NetworkSpec, _READERS),
    example={"subnetwork_name": "machines"},
    unsupported={
        "ephemeral_external_ip": ("addresses are never made", "reserve one, and name it in a network of type vip"),
        "ip_forwarding": ("it is a VM's", "write it under the VM's cloud_properties"),
        "xpn_host_project_id": ("it is the cloud's", "set properties.xpn_host_project_id"),
    },
)
