"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from coterie.cpi.contract import Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.http import HttpOptions
from coterie.cpi.kit.publishing import Publisher
from coterie.cpi.kit.readers import readers_of
from coterie.slotted import dataclass, field, replace

GROUP_TYPES = {  # in the order of the contract's policies
    "anti-affinity": "host anti-affinity",
    "affinity": "host affinity",
    "soft-anti-affinity": "non-strict host anti-affinity",
    "soft-affinity": "non-strict host affinity",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/cloudstack.md explains each."""

    endpoint: str
    api_key: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    default_zone: str | None = None
    default_key_name: str | None = None
    default_network: str | None = None
    default_disk_offering: str | None = None
    network_offering: str | None = None
    hypervisor: str = "KVM"
    stemcell_format: str = "QCOW2"
    stemcell_os_type: str = "Other Linux (64-bit)"
    stemcell_public_visibility: bool = False
    publish_mode: str = "upload"
    publish_url: str | None = None
    publish_user: str | None = None
    publish_password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    ssh_public_keys: tuple[str, ...] = ()
    state_timeout: float = 1800.0
    state_timeout_volume: float = 1800.0
    request_timeout: float = 120.0
    poll_s: float = 0.5
    settle_s: float = 60.0
    page_size: int = 500
    expunge: str = "auto"
    expunge_wait_s: float = 0.0
    check_addresses: bool = True
    migrate_local_disks: bool = True
    host_visibility: bool = False
    security_group_change: str = "refuse"
    policies: frozenset[str] = frozenset(GROUP_TYPES)
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()
    userdata_limit: int = 32768
    metadata_url: str = "http://data-server./latest/vm-id"
    agent: Mapping[str, Any] = field(default_factory=dict)
    ca_cert: str | None = None
    proxy_host: str | None = None
    proxy_port: int = 3128
    proxy_user: str | None = None
    proxy_password: str | None = field(default=None, repr=False)

    @property
    def proxy_url(self) -> str | None:
        if not self.proxy_host:
            return None
        user, password = quote(self.proxy_user or "", safe=""), quote(self.proxy_password or "", safe="")
        login = f"{user}:{password}@" if user else ""
        return f"http://{login}{self.proxy_host}:{self.proxy_port}"

    def publisher(self) -> Publisher:
        """It is on our side of the proxy."""
        options = replace(self.http_options(), proxy_url=None)
        return Publisher(self.publish_url, self.publish_user, self.publish_password, options)

    def http_options(self) -> HttpOptions:
        return HttpOptions(
            connect_timeout=self.request_timeout,
            request_timeout=self.request_timeout,
            ca_cert=self.ca_cert,
            proxy_url=self.proxy_url,
            tunnel_plain=True,
        )


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


@dataclass(frozen=True, slots=True)
class VmSpec:
    """`disk` and `root_disk_size` are MB, as everywhere in BOSH, and rounded up to GiB. `cpu_speed` is MHz."""

    compute_offering: str
    ephemeral_disk_offering: str | None = None
    disk: int | None = None
    root_disk_size: int | None = None
    cpu: int | None = None
    cpu_speed: int | None = None
    ram_mb: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    key_name: str | None = None
    public_key: str | None = None
    zone: str | None = None
    security_groups: tuple[str, ...] = ()
    affinity_groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    disk_offering: str | None = None
    zone: str | None = None


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    """With the words of BOSH's other CloudStack CPI in ours."""
    values = VM.read(properties, "cloud_properties")
    ram_mb, group = values.pop("ram", None), values.pop("affinity_group", None)
    groups = (*values.pop("affinity_groups", ()), *([group] if group else ()))
    return VmSpec(**{**values, "affinity_groups": groups, **({"ram_mb": ram_mb} if ram_mb else {})})


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _check_proxy(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "proxy_host" not in values and any(key.startswith("proxy_") for key in values):
        yield PropertyMistake("proxy_host", "is missing", "name the proxy, or leave out the other proxy properties")


def _check_disk(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "ram" in values and "ram_mb" in values:
        yield PropertyMistake("ram", "is given beside ram_mb, which means the same", "leave out one of them")
    if "disk" in values and "ephemeral_disk_offering" not in values:
        yield PropertyMistake("disk", "is given without an offering", "add ephemeral_disk_offering, or leave out disk")


_KEYS = "an administrator makes keys in the user's account page"
CLOUD = Form(
    readers_of(
        Settings,
        stemcell_format=readers.one_of("QCOW2", "RAW", "VHD", "VHDX", "OVA"),
        publish_mode=readers.one_of("upload", "server"),
        publish_url=readers.url,
        page_size=readers.whole(1, 500),
        expunge=readers.one_of("auto", "always", "never"),
        security_group_change=readers.one_of("refuse", "restart"),
        policies=readers.some_of(*GROUP_TYPES),
        userdata_limit=readers.whole(1, 2**20),
        proxy_port=readers.whole(1, 65535),
    ),
    needed={
        "endpoint": "give the URL of CloudStack's API, like https://cloud.example.org/client/api",
        **dict.fromkeys(("api_key", "secret_access_key"), _KEYS),
    },
    between=_check_proxy,
    secret=True,
    public=frozenset(
        {
            "endpoint",
            "default_zone",
            "default_network",
            "default_disk_offering",
            "default_key_name",
            "network_offering",
            "hypervisor",
            "keep",
            "stemcell_format",
            "stemcell_os_type",
            "policies",
            "publish_url",
            "metadata_url",
            "proxy_host",
        }
    ),
    example={
        "endpoint": "https://cloud.example.org/client/api",
        "api_key": "KEY",
        "secret_access_key": "SECRET",
        "default_zone": "zone1",
    },
)
VM = Form(
    {
        **readers_of(
            VmSpec,
            **dict.fromkeys(("disk", "root_disk_size", "cpu", "cpu_speed", "ram_mb"), readers.size),
        ),
        "ram": readers.size,
        "affinity_group": readers.text,
    },
    needed={"compute_offering": "name a compute offering"},
    between=_check_disk,
    example={"compute_offering": "Small Instance"},
    unsupported={
        "lbs": (
            "this driver changes no load balancer rules",
            "add the VM's address to the rule in CloudStack, or use a vip network",
        ),
        "routes": ("this driver changes no routes", "let the network's router or its DHCP server give them"),
        "affinity_group_type": (
            "server groups are created from env.bosh.group, by a policy",
            "set groups.policy in the configuration of coterie-cpi, or name existing groups in affinity_groups",
        ),
    },
)
DISK = Form(readers_of(DiskSpec))
NETWORK = Form(
    {"name": readers.text, "id": readers.text},
    example={"name": "private"},
    unsupported={
        "undiscoverable": (
            "every network is looked up, so that a mistake is found before a VM is created",
            "leave it out; where several networks have one name, write the network's id",
        )
    },
)
