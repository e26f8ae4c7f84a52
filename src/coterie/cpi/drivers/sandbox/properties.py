"""The properties of a sandbox cloud, read once and checked; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.cpi.contract import POLICIES, Form, InvalidCall, Reader
from coterie.cpi.kit.readers import flag, one_of, seconds, some_of, text, whole
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
    values = CLOUD.read(properties, "properties")
    if "state" not in values:
        raise InvalidCall("properties.state is missing", remedy="name the file that holds the simulated datacenter")
    return Settings(**{"account": cloud, **_DEFAULTS, **values})


def _path(value: Any) -> Path:
    if isinstance(value, (str, Path)) and str(value):
        return Path(value).expanduser()
    raise ValueError("give a path")


def _layout(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("write layout: {zones: [{name: z1}]}")
    try:
        read_layout(value)
    except BadRequest as error:
        raise ValueError(f"{error.what}; {error.remedy}") from None
    return value


def _quotas(value: Any) -> dict[str, int | None]:
    if not isinstance(value, Mapping):
        raise ValueError("write quotas: {instances: 20}")
    try:
        validate(value)
    except BadRequest as error:
        raise ValueError(f"{error.what}; {error.remedy}") from None
    return dict(value)


_READERS: Mapping[str, Reader] = {
    "state": _path,
    "account": text,
    "layout": _layout,
    "quotas": _quotas,
    "groups": one_of(*MODELS),
    "policies": some_of(*POLICIES),
    "resize_disk": flag,
    "snapshots": flag,
    "settle_s": seconds,
    "soft_lag_ms": whole(0),
    "boots_per_soft_group": whole(1),
}
_DEFAULTS: Mapping[str, Any] = {
    "layout": None,
    "quotas": {},
    "groups": MODELS[0],
    "policies": frozenset(POLICIES),
    "resize_disk": True,
    "snapshots": True,
    "settle_s": 2.0,
    "soft_lag_ms": 0,
    "boots_per_soft_group": None,
}
# `state` is needed, but whoever runs the driver may have a place for it
CLOUD = Form(_READERS, secret=True)
