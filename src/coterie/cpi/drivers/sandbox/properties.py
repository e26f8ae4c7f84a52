"""What users may write for a sandbox cloud and for its VMs, disks and networks, read and checked; a mistake is named by
its field. Touches no cloud."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.contract import POLICIES, Form, InvalidCall, PropertyMistake, Reader
from coterie.cpi.kit.readers import flag, mapping, one_of, seconds, size, some_of, text, texts, whole
from coterie.sandbox.accounts import MODELS
from coterie.sandbox.errors import BadRequest
from coterie.sandbox.fit import Demand
from coterie.sandbox.layout import read_layout
from coterie.sandbox.quotas import validate
from coterie.slotted import dataclass

STATE_FILE = "sandbox.db"
STATE_VARIABLE = "COTERIE_SANDBOX_STATE"  # of services on one machine that share a datacenter


@dataclass(frozen=True, slots=True)
class Settings:
    """`layout` counts only when the file is begun; the others count at once, for this cloud's account. `domains`: hosts
    are hidden, so many racks of a zone are shown as failure domains, and the driver chooses the member's rack."""

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
    domains: int | None
    client_tokens: bool
    max_parallel_calls: int
    keep: tuple[str, ...]
    agent: Mapping[str, Any]

    @property
    def single_writer(self) -> bool:
        return self.groups == "single-writer"


def read_settings(cloud: str, properties: Mapping[str, Any], state_folder: Path | None = None) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    values = CLOUD.read(properties, "properties")
    if "state" not in values:
        values["state"] = _default_state(state_folder)
    return Settings(**{"account": cloud, **_DEFAULTS, **values})


def _default_state(state_folder: Path | None) -> Path:
    """As `coterie sandbox` chooses it."""
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if state_folder is None:
        raise InvalidCall("properties.state is missing", remedy="name the file that holds the simulated datacenter")
    return state_folder / STATE_FILE


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
    "domains": whole(1),
    "client_tokens": flag,
    "max_parallel_calls": whole(1),
    "keep": texts,
    "agent": mapping,
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
    "domains": None,
    "client_tokens": False,
    "max_parallel_calls": 32,
    "keep": (),
    "agent": {},
}


def _rules(given: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if given.get("domains") and given.get("groups") == "single-writer":
        what = "cannot be had with groups: single-writer, where a VM joins its group after its place was chosen"
        yield PropertyMistake("domains", what, "use groups: direct")


CLOUD = Form(
    _READERS,
    secret=True,
    public=frozenset({"state", "layout", "groups", "policies", "domains", "client_tokens", "keep"}),
    between=_rules,
    example={
        "layout": {
            "zones": [
                {"name": "z1", "racks": 2, "hosts_per_rack": 3, "cpu": 32, "ram_mb": 131_072, "disk_mb": 4_194_304}
            ]
        }
    },
)

TYPES: dict[str, dict[str, int]] = {
    "s": {"cpu": 1, "ram_mb": 2048, "disk_mb": 10_240},
    "m": {"cpu": 2, "ram_mb": 4096, "disk_mb": 20_480},
    "l": {"cpu": 4, "ram_mb": 8192, "disk_mb": 40_960},
    "xl": {"cpu": 8, "ram_mb": 16_384, "disk_mb": 81_920},
}
SIZES = ("cpu", "ram_mb", "disk_mb")
_SYNONYMS = {"ram": "ram_mb", "ephemeral_disk_mb": "disk_mb"}
VM = Form(
    {
        "cpu": size,
        "ram_mb": size,
        "disk_mb": whole(0),
        "ram": size,
        "ephemeral_disk_mb": whole(0),
        "instance_type": one_of(*TYPES),
        "zone": text,
        "security_groups": texts,
    },
    example={"instance_type": "s"},
)
DISK = Form({"type": text, "zone": text, "name": text})
NETWORK = Form({"name": text})


@dataclass(frozen=True, slots=True)
class VmSpec:
    """`size.zone` None: the caller named none. `security_groups`: names of those that the VM has for itself."""

    size: Demand
    security_groups: tuple[str, ...]


def read_vm_spec(cloud_properties: Mapping[str, Any]) -> VmSpec:
    """A type of the table, sizes of one's own, or a type with some sizes changed."""
    given = VM.read(cloud_properties, "cloud_properties")
    own = {_SYNONYMS.get(key, key): value for key, value in given.items()}
    sizes = {**TYPES[own.get("instance_type", "s")], **{key: own[key] for key in SIZES if key in own}}
    return VmSpec(Demand(**sizes, zone=own.get("zone")), own.get("security_groups", ()))
