"""The properties of a sandbox cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.cpi.contract import POLICIES, InvalidCall
from coterie.sandbox.accounts import MODELS
from coterie.sandbox.errors import BadRequest
from coterie.sandbox.layout import read_layout
from coterie.sandbox.quotas import validate


@dataclass(frozen=True, slots=True)
class Settings:
    """`layout` counts only when the file is begun; the others count at once, for this cloud's account."""

    state: Path
    account: str
    layout: Mapping[str, Any] | None
    quotas: Mapping[str, int | None]
    groups: str
    policies: frozenset[str]
    resize_disk: bool
    snapshots: bool
    settle_s: float
    soft_lag_ms: int
    boots_per_soft_group: int | None

    @property
    def single_writer(self) -> bool:
        return self.groups == "single-writer"


def read_settings(cloud: str, properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    for key in properties:
        if key not in _READERS:
            raise _mistake(cloud, key, "is not known", f"use one of: {', '.join(_READERS)}")
    if not properties.get("state"):
        raise _mistake(cloud, "state", "is missing", "name the file that holds the simulated datacenter")
    defaults = {"account": cloud, **_DEFAULTS}
    values: dict[str, Any] = {
        key: _READERS[key](properties[key]) if key in properties else defaults.get(key) for key in _READERS
    }
    for key, value in values.items():
        if isinstance(value, _Wrong):
            raise _mistake(cloud, key, f"is {properties[key]!r}", value.remedy)
    return Settings(**values)


@dataclass(frozen=True, slots=True)
class _Wrong:
    remedy: str


def _text(value: Any) -> Any:
    return value if isinstance(value, str) and value else _Wrong("give a text")


def _path(value: Any) -> Any:
    return Path(value).expanduser() if isinstance(value, (str, Path)) else _Wrong("give a path")


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else _Wrong("say true or false")


def _seconds(value: Any) -> Any:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if good else _Wrong("give a number of seconds from 0")


def _whole(least: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return value if good else _Wrong(f"give a whole number from {least}")

    return read


def _policies(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(policy in POLICIES for policy in value):
        return frozenset(value)
    return _Wrong(f"list some of: {', '.join(POLICIES)}")


def _model(value: Any) -> Any:
    return value if value in MODELS else _Wrong(f"use one of: {', '.join(MODELS)}")


def _layout(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return _Wrong("write layout: {zones: [{name: z1}]}")
    try:
        read_layout(value)
    except BadRequest as error:
        return _Wrong(f"{error.what}; {error.remedy}")
    return value


def _quotas(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return _Wrong("write quotas: {instances: 20}")
    try:
        validate(value)
    except BadRequest as error:
        return _Wrong(f"{error.what}; {error.remedy}")
    return dict(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "state": _path,
    "account": _text,
    "layout": _layout,
    "quotas": _quotas,
    "groups": _model,
    "policies": _policies,
    "resize_disk": _flag,
    "snapshots": _flag,
    "settle_s": _seconds,
    "soft_lag_ms": _whole(0),
    "boots_per_soft_group": _whole(1),
}
_DEFAULTS: dict[str, Any] = {
    "quotas": {},
    "groups": MODELS[0],
    "policies": frozenset(POLICIES),
    "resize_disk": True,
    "snapshots": True,
    "settle_s": 2.0,
    "soft_lag_ms": 0,
}


def _mistake(cloud: str, key: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"cloud {cloud}: properties.{key} {what}", remedy=remedy)
