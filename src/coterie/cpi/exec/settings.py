"""The properties of an exec cloud, checked. A wrong one is an InvalidCall that names it; values are never repeated."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.cpi.contract import InvalidCall
from coterie.cpi.exec.limits import UNSUPPORTED
from coterie.cpi.wire import METHODS

# What a BOSH Director gives its CPI programs; everything else of our environment stays here.
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("TMPDIR", "HOME")
_OURS = ("director_uuid", "vm", "coterie")
# Without these a cloud is of no use.
_NEEDED = {"info", "ping", "check", "capabilities", "create_vm", "delete_vm", "has_vm"}
LACKABLE = tuple(
    sorted(name for name, entry in METHODS.items() if entry.of_cpi and name not in _NEEDED | {*UNSUPPORTED})
)


@dataclass(frozen=True, slots=True)
class Settings:
    path: str
    properties: Mapping[str, Any] = field(default_factory=dict)  # merged into the context, as cpi-config does
    env: tuple[str, ...] = ()  # names of further variables that the program may see
    timeout_s: float = 3600.0
    stemcell_api_version: int = 2
    lacks: tuple[str, ...] = ()  # methods that this program is known not to have

    def environment(self) -> dict[str, str]:
        seen = {name: os.environ[name] for name in (*_KEPT, *self.env) if name in os.environ}
        return {"PATH": _PATH, **seen}

    def context(self, director_uuid: str) -> dict[str, Any]:
        stemcell = {"stemcell": {"api_version": self.stemcell_api_version}}
        return {**self.properties, "director_uuid": director_uuid, "vm": stemcell}


def read_settings(cloud: str, given: Mapping[str, Any]) -> Settings:
    readers: dict[str, Callable[[str, str, Any], Any]] = {
        "path": _path,
        "properties": _properties,
        "env": _names,
        "timeout_s": _seconds,
        "stemcell_api_version": _version,
        "lacks": _methods,
    }
    for name in given:
        if name not in readers:
            raise _wrong(cloud, str(name), "is not known", f"use {', '.join(readers)}")
    if "path" not in given:
        raise _wrong(cloud, "path", "is missing", "name the CPI program, for example /var/vcap/jobs/x_cpi/bin/cpi")
    return Settings(**{name: readers[name](cloud, name, value) for name, value in given.items()})


def _path(cloud: str, name: str, value: Any) -> str:
    if not isinstance(value, str) or not Path(value).expanduser().is_absolute():
        raise _wrong(cloud, name, "is not an absolute path", "give the full path of the CPI program")
    return str(Path(value).expanduser())


def _properties(cloud: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(cloud, name, "is not a mapping", "write it as in a BOSH cpi-config")
    for key in _OURS:
        if key in value:
            raise _wrong(cloud, f"{name}.{key}", "is set by Coterie itself", "remove it")
    return dict(value)


def _names(cloud: str, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one for one in value):
        raise _wrong(cloud, name, "is not a list of variable names", "for example [https_proxy, no_proxy]")
    return tuple(value)


def _methods(cloud: str, name: str, value: Any) -> tuple[str, ...]:
    for method in _names(cloud, name, value):
        if method not in LACKABLE:
            raise _wrong(cloud, name, f"names {method[:64]!r}", f"use only {', '.join(LACKABLE)}")
    return tuple(value)


def _seconds(cloud: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86400:
        raise _wrong(cloud, name, "is not a number of seconds", "give a number above 0 and up to 86400")
    return float(value)


def _version(cloud: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(cloud, name, "is not a whole number", "give the api_version of stemcell.MF, usually 2 or 3")
    return value


def _wrong(cloud: str, name: str, why: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"property `{name}` of cloud {cloud!r} {why}", remedy=remedy)
