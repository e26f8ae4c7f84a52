"""The properties of a vSphere cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any

from coterie.cpi.contract import Form, Reader
from coterie.cpi.kit.readers import flag, mapping, one_of, seconds, size, text, url_parts


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """A zone is one or more clusters, or a resource pool in them. `datastores` empty: those of the whole cloud."""

    clusters: tuple[str, ...]
    resource_pool: str | None = None
    datastores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """`zones` empty: every cluster of the datacenter is a zone of its own name."""

    url: str
    user: str
    password: str
    datacenter: str
    zones: Mapping[str, ZoneSettings]
    datastores: tuple[str, ...]
    persistent_datastores: tuple[str, ...]
    folder: str
    network: str | None
    agent_settings: str
    agent: Mapping[str, Any]
    linked_clones: bool
    ca_cert: str | None
    insecure: bool
    settle_s: float
    task_timeout: float
    max_parallel_calls: int

    def __repr__(self) -> str:
        return f"Settings(url={self.url!r}, user={self.user!r}, datacenter={self.datacenter!r})"

    def may_use(self, datastore: str, patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(datastore, pattern) for pattern in patterns)


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    values = {**_DEFAULTS, **CLOUD.read(properties, "properties")}
    values["persistent_datastores"] = values["persistent_datastores"] or values["datastores"]
    return Settings(**values)


def _url(value: Any) -> str:
    where = url_parts(value)
    if where.scheme == "https" and where.hostname:
        return str(value).rstrip("/")
    if where.scheme == "http" and where.hostname and _loopback(where.hostname):
        return str(value).rstrip("/")
    raise ValueError("give https://HOST[:PORT]; plain http goes to loopback addresses only")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def patterns(value: Any) -> tuple[str, ...]:
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
    unknown = sorted(set(value) - {"cluster", "clusters", "resource_pool", "datastores"})
    if unknown:
        raise ValueError(f"zone {name}: {unknown[0]} is not known; use cluster, clusters, resource_pool, datastores")
    clusters = patterns(value["clusters"]) if "clusters" in value else (text(value["cluster"]),)
    pool, stores = value.get("resource_pool"), value.get("datastores")
    return ZoneSettings(clusters, text(pool) if pool else None, patterns(stores) if stores else ())


_READERS: Mapping[str, Reader] = {
    "url": _url,
    "user": text,
    "password": text,
    "datacenter": text,
    "zones": _zones,
    "datastores": patterns,
    "persistent_datastores": patterns,
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
}
_DEFAULTS: dict[str, Any] = {
    "zones": {},
    "datastores": ("*",),
    "persistent_datastores": (),
    "folder": "coterie",
    "network": None,
    "agent_settings": "cdrom",
    "agent": {},
    "linked_clones": True,
    "ca_cert": None,
    "insecure": False,
    "settle_s": 30.0,
    "task_timeout": 1800.0,
    "max_parallel_calls": 16,
}
_NEEDED = {
    "url": "name the vCenter: https://vcenter.example.com",
    "user": "name the user, as user@domain",
    "password": "give the user's password",
    "datacenter": "name the datacenter",
}
CLOUD = Form(_READERS, needed=_NEEDED, secret=True)
