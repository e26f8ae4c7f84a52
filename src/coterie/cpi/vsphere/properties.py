"""The properties of a vSphere cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from coterie.cpi.contract import InvalidCall


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


def read_settings(cloud: str, properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    for key in properties:
        if key not in _READERS:
            raise _mistake(cloud, key, "is not known", f"use one of: {', '.join(_READERS)}")
    values: dict[str, Any] = {}
    for key, read in _READERS.items():
        if properties.get(key) is None:
            if key not in _DEFAULTS:
                raise _mistake(cloud, key, "is missing", _NEEDED[key])
            values[key] = _DEFAULTS[key]
            continue
        try:
            values[key] = read(properties[key])
        except ValueError as error:
            shown = "not what it should be" if key in _SECRET else repr(properties[key])
            raise _mistake(cloud, key, f"is {shown}", str(error)) from None
    values["persistent_datastores"] = values["persistent_datastores"] or values["datastores"]
    return Settings(**values)


def _url(value: Any) -> str:
    where = urlsplit(value) if isinstance(value, str) else urlsplit("")
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


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("give a text")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("give a list of names; * and ? stand for any characters")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("say true or false")


def _seconds(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError("give a number of seconds")


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("give a whole number above 0")


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError("give an object")


def _way(value: Any) -> str:
    if value in ("cdrom", "guestinfo"):
        return str(value)
    raise ValueError("use cdrom or guestinfo")


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
    clusters = _texts(value["clusters"]) if "clusters" in value else (_text(value["cluster"]),)
    pool, stores = value.get("resource_pool"), value.get("datastores")
    return ZoneSettings(clusters, _text(pool) if pool else None, _texts(stores) if stores else ())


_READERS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "user": _text,
    "password": _text,
    "datacenter": _text,
    "zones": _zones,
    "datastores": _texts,
    "persistent_datastores": _texts,
    "folder": _text,
    "network": _text,
    "agent_settings": _way,
    "agent": _mapping,
    "linked_clones": _flag,
    "ca_cert": _text,
    "insecure": _flag,
    "settle_s": _seconds,
    "task_timeout": _seconds,
    "max_parallel_calls": _whole,
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
_SECRET = ("password", "agent")


def _mistake(cloud: str, key: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"cloud {cloud}: properties.{key} {what}", remedy=remedy)
