"""The properties of a CloudStack cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import Form, Reader, Slip
from coterie.cpi.kit import readers

GROUP_TYPES = {  # in the order of the contract's policies
    "anti-affinity": "host anti-affinity",
    "affinity": "host affinity",
    "soft-anti-affinity": "non-strict host anti-affinity",
    "soft-affinity": "non-strict host affinity",
}


@dataclass(frozen=True, slots=True)
class Proxy:
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    def headers(self) -> dict[str, str]:
        if not self.user:
            return {}
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"proxy-authorization": f"Basic {pair}"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/cloudstack.md says what each is for."""

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
    userdata_limit: int = 32768
    metadata_url: str = "http://data-server./latest/vm-id"
    agent: Mapping[str, Any] = field(default_factory=dict)
    ca_cert: str | None = None
    proxy: Proxy | None = None


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    values = CLOUD.read(properties, "properties")
    parts = {part: values.pop(f"proxy_{part}", None) for part in ("host", "port", "user", "password")}
    if parts["host"]:
        values["proxy"] = Proxy(parts["host"], parts["port"] or 3128, parts["user"] or "", parts["password"] or "")
    return Settings(**values)


def _between(values: Mapping[str, Any]) -> Iterable[Slip]:
    if "proxy_host" not in values and any(key.startswith("proxy_") for key in values):
        yield Slip("proxy_host", "is missing", "name the proxy, or leave out the other proxy properties")


_KEYS = "an administrator makes keys in the user's account page"
_READERS: Mapping[str, Reader] = {
    "endpoint": readers.url,
    "api_key": readers.text,
    "secret_access_key": readers.text,
    "default_zone": readers.text,
    "default_key_name": readers.text,
    "default_network": readers.text,
    "default_disk_offering": readers.text,
    "network_offering": readers.text,
    "hypervisor": readers.text,
    "stemcell_format": readers.one_of("QCOW2", "RAW", "VHD", "VHDX", "OVA"),
    "stemcell_os_type": readers.text,
    "stemcell_public_visibility": readers.flag,
    "publish_mode": readers.one_of("upload", "server"),
    "publish_url": readers.url,
    "publish_user": readers.text,
    "publish_password": readers.text,
    "private_key": readers.text,
    "ssh_public_keys": readers.texts,
    "state_timeout": readers.seconds,
    "state_timeout_volume": readers.seconds,
    "request_timeout": readers.seconds,
    "poll_s": readers.seconds,
    "settle_s": readers.seconds,
    "page_size": readers.whole(1, 500),
    "expunge": readers.one_of("auto", "always", "never"),
    "expunge_wait_s": readers.seconds,
    "check_addresses": readers.flag,
    "migrate_local_disks": readers.flag,
    "host_visibility": readers.flag,
    "security_group_change": readers.one_of("refuse", "restart"),
    "policies": readers.some_of(*GROUP_TYPES),
    "max_parallel_calls": readers.whole(1, 1000),
    "userdata_limit": readers.whole(1, 2**20),
    "metadata_url": readers.url,
    "agent": readers.mapping,
    "ca_cert": readers.text,
    "proxy_host": readers.text,
    "proxy_port": readers.whole(1, 65535),
    "proxy_user": readers.text,
    "proxy_password": readers.text,
}
CLOUD = Form(
    _READERS,
    needed={
        "endpoint": "give the URL of CloudStack's API, like https://cloud.example.org/client/api",
        **dict.fromkeys(("api_key", "secret_access_key"), _KEYS),
    },
    between=_between,
    secret=True,
)
