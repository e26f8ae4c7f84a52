"""The properties of an exec cloud, checked. A wrong one is an InvalidCall that names it; values are never repeated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.contract import Form
from coterie.cpi.drivers.exec.limits import UNSUPPORTED
from coterie.cpi.kit.readers import whole
from coterie.cpi.wire import METHODS
from coterie.slotted import dataclass, field

# What a BOSH Director gives its CPI programs; everything else of our environment stays here.
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("TMPDIR", "HOME")
_DAY_S = 86400
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
    max_parallel_calls: int = 8  # every call is a process of its own

    def environment(self) -> dict[str, str]:
        seen = {name: os.environ[name] for name in (*_KEPT, *self.env) if name in os.environ}
        return {"PATH": _PATH, **seen}

    def context(self, director_uuid: str) -> dict[str, Any]:
        stemcell = {"stemcell": {"api_version": self.stemcell_api_version}}
        return {**self.properties, "director_uuid": director_uuid, "vm": stemcell}


def read_settings(given: Mapping[str, Any]) -> Settings:
    return Settings(**CLOUD.read(given, "properties"))


def _path(value: Any) -> str:
    if isinstance(value, str) and Path(value).expanduser().is_absolute():
        return str(Path(value).expanduser())
    raise ValueError("give the full path of the CPI program")


def _properties(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("write it as in a BOSH cpi-config")
    for key in _OURS:
        if key in value:
            raise ValueError(f"remove {key}: Coterie sets it itself")
    return dict(value)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("list names of variables, for example [https_proxy, no_proxy]")


def _methods(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(one in LACKABLE for one in value):
        return tuple(value)
    raise ValueError(f"list only {', '.join(LACKABLE)}")


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _DAY_S:
        return float(value)
    raise ValueError(f"give a number of seconds above 0 and up to {_DAY_S}")


def _version(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError("give the api_version of stemcell.MF, usually 2 or 3")


CLOUD = Form(
    {
        "path": _path,
        "properties": _properties,
        "env": _names,
        "timeout_s": _seconds,
        "stemcell_api_version": _version,
        "lacks": _methods,
        "max_parallel_calls": whole(1),
    },
    needed={"path": "name the CPI program, for example /var/vcap/jobs/x_cpi/bin/cpi"},
    secret=True,
    public=frozenset({"path", "env", "timeout_s", "stemcell_api_version", "lacks", "max_parallel_calls"}),
    example={"path": "/var/vcap/jobs/x_cpi/bin/cpi", "properties": {}},
)
