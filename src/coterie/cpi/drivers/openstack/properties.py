"""The properties of an OpenStack cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import POLICIES, Form, Reader, Slip
from coterie.cpi.kit import readers

GROUP_POLICIES = tuple(policy for policy in POLICIES if policy != "host-affinity")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/openstack.md says what each is for. Who logs in: `login`."""

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
    metadata_url: str = "http://169.254.169.254/openstack/latest/meta_data.json"
    agent: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


def _between(values: Mapping[str, Any]) -> Iterable[Slip]:
    if "auth_url" not in values and "cloud" not in values:
        yield Slip("auth_url", "is missing", "give Keystone's URL, or with `cloud` an entry of clouds.yaml")


LOGIN_TEXTS = (
    *("username", "user_id", "password", "project_name", "project_id", "domain"),
    *("user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id"),
    *("application_credential_id", "application_credential_name", "application_credential_secret"),
)
_TEXTS = (
    *("cloud", "clouds_file", "region", "ca_cert", "default_availability_zone", "default_volume_type"),
    *("default_key_name", "default_network", "external_network"),
)
_SECONDS = ("connect_timeout", "request_timeout", "state_timeout", "poll_s", "settle_s")
_FLAGS = (
    *("insecure", "boot_from_volume", "config_drive", "human_readable_vm_names", "use_dhcp"),
    "stemcell_public_visibility",
)
_READERS: Mapping[str, Reader] = {
    "auth_url": readers.url,
    **dict.fromkeys((*LOGIN_TEXTS, *_TEXTS), readers.text),
    "interface": readers.one_of("public", "internal", "admin"),
    "endpoints": readers.urls,
    "proxy_url": readers.url,
    **dict.fromkeys(_SECONDS, readers.seconds),
    **dict.fromkeys(_FLAGS, readers.flag),
    "retries": readers.whole(0, 100),
    "page_size": readers.whole(1, 1000),
    "default_security_groups": readers.texts,
    "policies": readers.some_of(*GROUP_POLICIES),
    "soft_spread": readers.one_of("host", "active"),
    "max_parallel_calls": readers.whole(1, 1000),
    "metadata_url": readers.url,
    "agent": readers.mapping,
}
CLOUD = Form(_READERS, between=_between, secret=True)
