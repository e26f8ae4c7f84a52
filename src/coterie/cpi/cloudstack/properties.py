"""The properties of a CloudStack cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import POLICIES, InvalidCall

GROUP_TYPES = {
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
    publish: str = "upload"
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
    host_visibility: bool = False
    security_group_change: str = "refuse"
    policies: frozenset[str] = frozenset(GROUP_TYPES)
    max_parallel_calls: int = 16
    userdata_limit: int = 32768
    metadata_url: str = "http://data-server./latest/vm-id"
    agent: Mapping[str, Any] = field(default_factory=dict)
    ca_cert: str | None = None
    proxy: Proxy | None = None


def read_settings(cloud: str, properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    values = {}
    for key, given in properties.items():
        if key not in _READERS:
            raise _mistake(cloud, key, "is not known", f"use one of: {', '.join(_READERS)}")
        if given is None:
            continue
        value = _READERS[key](given)
        if isinstance(value, _Wrong):
            # the value is not repeated: it may be a secret in the wrong place
            raise _mistake(cloud, key, "is wrong", value.remedy)
        values[key] = value
    for key in ("endpoint", "api_key", "secret_access_key"):
        if key not in values:
            raise _mistake(cloud, key, "is missing", "an administrator makes keys in the user's account page")
    return Settings(**_with_proxy(cloud, values))


@dataclass(frozen=True, slots=True)
class _Wrong:
    remedy: str


def _with_proxy(cloud: str, values: dict[str, Any]) -> dict[str, Any]:
    parts = {part: values.pop(f"proxy_{part}", None) for part in ("host", "port", "user", "password")}
    if parts["host"]:
        values["proxy"] = Proxy(parts["host"], parts["port"] or 3128, parts["user"] or "", parts["password"] or "")
    elif any(parts.values()):
        raise _mistake(cloud, "proxy_host", "is missing", "name the proxy, or leave out the other proxy properties")
    return values


def _text(value: Any) -> Any:
    return value if isinstance(value, str) and value else _Wrong("give a text")


def _url(value: Any) -> Any:
    good = isinstance(value, str) and value.startswith(("http://", "https://"))
    return value if good else _Wrong("give a URL like https://cloud.example.org/client/api")


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else _Wrong("say true or false")


def _seconds(value: Any) -> Any:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if good else _Wrong("give a number of seconds from 0")


def _whole(least: int, most: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        good = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return value if good else _Wrong(f"give a whole number from {least} to {most}")

    return read


def _one_of(*words: str) -> Callable[[Any], Any]:
    return lambda value: value if value in words else _Wrong(f"use one of: {', '.join(words)}")


def _texts(value: Any) -> Any:
    good = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    return tuple(value) if good else _Wrong("give a list of texts")


def _policies(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(one in GROUP_TYPES for one in value):
        return frozenset(value)
    return _Wrong(f"list some of: {', '.join(one for one in POLICIES if one in GROUP_TYPES)}")


def _object(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else _Wrong("give an object: mbus, ntp, blobstore")


_PORT = _whole(1, 65535)
_READERS: dict[str, Callable[[Any], Any]] = {
    "endpoint": _url,
    "api_key": _text,
    "secret_access_key": _text,
    "default_zone": _text,
    "default_key_name": _text,
    "default_network": _text,
    "default_disk_offering": _text,
    "network_offering": _text,
    "hypervisor": _text,
    "stemcell_format": _one_of("QCOW2", "RAW", "VHD", "VHDX", "OVA"),
    "stemcell_os_type": _text,
    "stemcell_public_visibility": _flag,
    "publish": _one_of("upload", "server"),
    "private_key": _text,
    "ssh_public_keys": _texts,
    "state_timeout": _seconds,
    "state_timeout_volume": _seconds,
    "request_timeout": _seconds,
    "poll_s": _seconds,
    "settle_s": _seconds,
    "page_size": _whole(1, 500),
    "expunge": _one_of("auto", "always", "never"),
    "expunge_wait_s": _seconds,
    "check_addresses": _flag,
    "host_visibility": _flag,
    "security_group_change": _one_of("refuse", "restart"),
    "policies": _policies,
    "max_parallel_calls": _whole(1, 1000),
    "userdata_limit": _whole(1, 2**20),
    "metadata_url": _url,
    "agent": _object,
    "ca_cert": _text,
    "proxy_host": _text,
    "proxy_port": _PORT,
    "proxy_user": _text,
    "proxy_password": _text,
}


def _mistake(cloud: str, key: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"cloud {cloud}: properties.{key} {what}", remedy=remedy)
