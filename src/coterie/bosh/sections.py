"""The sections of the configuration: groups, publishing server, registry. Each is read whole or refused by field."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from coterie.cpi.contract import POLICIES, InvalidCall

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Groups:
    """Server groups from env.bosh.group. `policy` None: soft-anti-affinity where the cloud has it, else no group."""

    enabled: bool = True
    policy: str | None = None
    compilation: bool = False
    patience_s: float = 600.0

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}")


@dataclass(frozen=True, slots=True)
class Publish:
    """The publishing server. `url`: how the cloud reaches it; `listen`: HOST:PORT on this machine."""

    listen: str
    url: str
    folder: str
    user: str
    password: str
    ttl_s: float = 86_400.0

    def __post_init__(self) -> None:
        _address(self.listen)


@dataclass(frozen=True, slots=True)
class Registry:
    """Agent settings for stemcells of api_version 1. `endpoint`: how machines reach it, without credentials.

    `system_disk`: the root device, for drivers that do not say where the disks of a machine are.
    """

    listen: str
    endpoint: str
    user: str
    password: str
    system_disk: str = "/dev/vda"

    def __post_init__(self) -> None:
        _address(self.listen)
        if not self.endpoint.startswith(("http://", "https://")):
            raise ValueError("endpoint must begin with http:// or https://")


def read_section(path: str, name: str, kind: type[S], value: Any) -> S:
    if not isinstance(value, dict):
        raise mistake(path, name, "must be a mapping", f"write its settings below `{name}:`")
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # the sections are dataclasses
    for key, given in value.items():
        if key not in known:
            raise mistake(path, f"{name}.{key}", "is not known", f"use one of: {', '.join(known)}")
        _check(path, f"{name}.{key}", str(known[key].type), given)
    for key, one in known.items():
        if key not in value and one.default is MISSING:
            raise mistake(path, f"{name}.{key}", "is missing", f"write it below `{name}:`")
    try:
        return kind(**value)
    except ValueError as error:
        raise mistake(path, name, str(error), "correct it there") from None


def mistake(path: str, field: str, what: str, remedy: str) -> InvalidCall:
    place = f"{field} in the configuration {path}" if field else f"the configuration {path}"
    return InvalidCall(f"{place} {what}", remedy=remedy)


def _check(path: str, field: str, wanted: str, given: Any) -> None:
    words = {"bool": "true or false", "float": "a number of seconds", "str": "a text that is not empty"}
    plain = wanted.removesuffix(" | None")
    good = {
        "bool": isinstance(given, bool),
        "float": isinstance(given, int | float) and not isinstance(given, bool) and given > 0,
        "str": isinstance(given, str) and bool(given),
    }[plain]
    if not good and not (given is None and plain != wanted):
        raise mistake(path, field, f"must be {words[plain]}", "correct it there")


def _address(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("listen must be HOST:PORT")
