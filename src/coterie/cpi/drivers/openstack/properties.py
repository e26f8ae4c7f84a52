"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Read and checked at once; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import POLICIES, Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.readers import mapping, readers_of, size, text
from coterie.slotted import dataclass, field

GROUP_POLICIES = tuple(policy for policy in POLICIES if policy != "host-affinity")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/openstack.md says what each is for."""

    auth_url: str | None = None
    username: str | None = None
    user_id: str | None = None
    password: str | None = field(default=None, repr=False)
    project_name: str | None = None
    project_id: str | None = None
    domain: str | None = None
    user_domain_name: str | None = None
    user_domain_id: str | None = None
    project_domain_name: str | None = None
    project_domain_id: str | None = None
    application_credential_id: str | None = None
    application_credential_name: str | None = None
    application_credential_secret: str | None = field(default=None, repr=False)
    cloud: str | None = None
    clouds_file: str | None = None
    region: str | None = None
    interface: str = "public"
    endpoints: Mapping[str, str] = field(default_factory=dict)
    ca_cert: str | None = None
    insecure: bool = False
    proxy_url: str | None = field(default=None, repr=False)
    connect_timeout: float = 10.0
    request_timeout: float = 60.0
    retries: int = 5
    state_timeout: float = 600.0
    poll_s: float = 0.5
    settle_s: float = 60.0
    page_size: int = 200
    default_availability_zone: str | None = None
    default_volume_type: str | None = None
    default_key_name: str | None = None
    default_network: str | None = None
    default_security_groups: tuple[str, ...] = ()
    external_network: str | None = None
    boot_from_volume: bool = False
    config_drive: bool = False
    human_readable_vm_names: bool = True
    use_dhcp: bool = True
    stemcell_public_visibility: bool = False
    policies: frozenset[str] = frozenset(GROUP_POLICIES)
    soft_spread: str = "host"
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()
    metadata_url: str = "http://169.254.169.254/openstack/latest/meta_data.json"
    agent: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that comes and goes with its VM; `size` in GiB, as BOSH writes root_disk."""

    size: int
    type: str | None = None


@dataclass(frozen=True, slots=True)
class VmSpec:
    instance_type: str
    availability_zone: str | None = None
    key_name: str | None = None
    public_key: str | None = None
    security_groups: tuple[str, ...] = ()
    root_disk: VolumeSpec | None = None
    ephemeral_disk: VolumeSpec | None = None
    boot_from_volume: bool | None = None
    config_drive: bool | None = None
    scheduler_hints: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    type: str | None = None
    availability_zone: str | None = None
    name: str | None = None


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _read_volume(value: Any) -> VolumeSpec:
    given = mapping(value)
    if set(given) - {"size", "type"} or "size" not in given:
        raise ValueError("write {size: GIB} or {size: GIB, type: VOLUME_TYPE}")
    return VolumeSpec(size(given["size"]), text(given["type"]) if given.get("type") else None)


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "auth_url" not in values and "cloud" not in values:
        yield PropertyMistake("auth_url", "is missing", "give Keystone's URL, or with `cloud` an entry of clouds.yaml")


def _check_vm(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "group" in values.get("scheduler_hints", {}):
        remedy = "name the group in the manifest's placement, with adopt: true if it is an operator's"
        yield PropertyMistake("scheduler_hints", "has a group, which is not for you to set", remedy)


LOGIN_TEXTS = (
    *("username", "user_id", "password", "project_name", "project_id", "domain"),
    *("user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id"),
    *("application_credential_id", "application_credential_name", "application_credential_secret"),
)
CLOUD = Form(
    readers_of(
        Settings,
        auth_url=readers.url,
        interface=readers.one_of("public", "internal", "admin"),
        endpoints=readers.urls,
        page_size=readers.whole(1, 1000),
        policies=readers.some_of(*GROUP_POLICIES),
        soft_spread=readers.one_of("host", "active"),
    ),
    between=_check_cloud,
    secret=True,
    public=frozenset(
        {
            "auth_url",
            "region",
            "endpoints",
            "interface",
            "project_name",
            "default_availability_zone",
            "default_key_name",
            "default_network",
            "default_security_groups",
            "default_volume_type",
            "external_network",
            "keep",
            "policies",
            "metadata_url",
        }
    ),
    example={
        "auth_url": "https://cloud.example.org:5000/v3",
        "application_credential_id": "ID",
        "application_credential_secret": "SECRET",
    },
)
VM = Form(
    readers_of(VmSpec, root_disk=_read_volume, ephemeral_disk=_read_volume),
    needed={"instance_type": "name a flavor"},
    between=_check_vm,
    example={"instance_type": "m1.small"},
    unsupported={
        "availability_zones": (
            "a zone is chosen by the cloud config's azs, which server groups and disks follow",
            "write one az for each, with availability_zone in its cloud_properties",
        ),
        "loadbalancer_pools": (
            "this driver changes no load balancers",
            "add the VM's address to the pool in Octavia, or use a vip network",
        ),
        "allowed_address_pairs": (
            "this driver sets no address pairs on ports",
            "set them on the port in Neutron, or use a vip network",
        ),
    },
)
DISK = Form(readers_of(DiskSpec))
NETWORK = Form(
    {"net_id": readers.text, "name": readers.text, "security_groups": readers.texts}, example={"name": "private"}
)
