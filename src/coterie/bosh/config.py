"""The configuration file of `coterie-cpi`: JSON or YAML; the program's own keys, and all others for the driver.

A value may be `{from_file: PATH}` or `{from_env: NAME}`, so that no secret has to stand in the file.
"""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

from coterie.cpi.contract import POLICIES, InvalidCall
from coterie.slotted import MISSING, dataclass, field, fields

S = TypeVar("S")
LEDGER = "/var/vcap/store/coterie_cpi/ledger.db"
SOCKET = "/var/vcap/sys/run/coterie_cpi/cpi.sock"
OWN = (
    *("driver", "cloud", "ledger", "socket", "stemcell_formats", "lease_s", "groups", "publish_server", "registry"),
    *("exec_paths", "clouds"),
)


@dataclass(frozen=True, slots=True)
class Groups:
    """Server groups from env.bosh.group. `enabled` None: unless the cloud wants a privilege of its own for them, and no
    policy is named. `policy` None: soft-anti-affinity where the cloud has it, else no group."""

    enabled: bool | None = None
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


@dataclass(frozen=True, slots=True)
class Config:
    """`properties` go to the driver as they are; what else a driver needs, it reads from there. `exec_paths`: programs
    that the driver exec may run; a request can name no others. `clouds`: by name, the properties of further clouds as a
    Director's cpi-config has them, for cleanup."""

    path: str
    driver: str
    cloud: str
    ledger: str = LEDGER
    socket: str = SOCKET
    stemcell_formats: list[str] | None = None
    lease_s: float = 30.0
    groups: Groups = field(default_factory=Groups)
    publish_server: Publish | None = None
    registry: Registry | None = None
    exec_paths: list[str] = field(default_factory=list)
    clouds: dict[str, dict[str, Any]] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)


def load(path: str) -> Config:
    """The configuration in this file; every mistake names the file, the field and what to write there."""
    document = _document(path)
    own = {key: _resolve(path, key, document[key]) for key in OWN if document.get(key) is not None}
    rest = {key: value for key, value in document.items() if key not in (*OWN, "properties")}
    nested = document.get("properties") or {}
    if not isinstance(nested, dict):
        raise mistake(path, "properties", "must be a mapping", "write the driver's properties below it")
    properties = {key: _resolve(path, key, value) for key, value in {**rest, **nested}.items()}
    return Config(path=path, properties=properties, **_read_own(path, own))


def _document(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib would cost every call its import
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise mistake(path, "", f"cannot be read ({error})", "name a readable file with --config FILE") from None
    document = _parse(path, text)
    if not isinstance(document, dict):
        raise mistake(path, "", "must be a mapping", "begin with `driver: cloudstack`")
    return document


def _parse(path: str, text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise mistake(path, "", f"is no JSON: {error}", "mend that place, or write YAML") from None
    from ruamel.yaml import YAML  # the parser is slow to import, and JSON does not need it
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise mistake(path, "", f"is no YAML: {where}{problem}", "mend that place") from None


def _read_own(path: str, own: dict[str, Any]) -> dict[str, Any]:
    for key in ("driver", "cloud", "ledger", "socket"):
        if key in own and (not isinstance(own[key], str) or not own[key]):
            raise mistake(path, key, "must be a text that is not empty", f"write `{key}: …`")
    if "driver" not in own:
        raise mistake(path, "driver", "is missing", "name the cloud's driver, for example `driver: cloudstack`")
    own.setdefault("cloud", own["driver"])
    _check_formats(path, own.get("stemcell_formats"))
    _check_exec_paths(path, own.get("exec_paths"))
    _check_clouds(path, own.get("clouds", {}))
    lease = own.get("lease_s", 30.0)
    if isinstance(lease, bool) or not isinstance(lease, int | float) or not 0.2 <= lease <= 3600:
        raise mistake(path, "lease_s", "must be a number of seconds from 0.2 to 3600", "leave it out for 30")
    for key, section in (("groups", Groups), ("publish_server", Publish), ("registry", Registry)):
        if key in own:
            own[key] = read_section(path, key, section, own[key])
    return own


def _check_exec_paths(path: str, programs: Any) -> None:
    full = isinstance(programs, list) and all(isinstance(one, str) and one.startswith("/") for one in programs)
    if programs is not None and not full:
        raise mistake(path, "exec_paths", "must be a list of full paths", "leave it out to run no program")


def _check_clouds(path: str, clouds: Any) -> None:
    if not isinstance(clouds, dict) or not all(isinstance(one, dict) for one in clouds.values()):
        raise mistake(path, "clouds", "must be a mapping of mappings", "write NAME: {endpoint: …} as in the cpi-config")


def _check_formats(path: str, formats: Any) -> None:
    texts = isinstance(formats, list) and formats and all(isinstance(one, str) and one for one in formats)
    if formats is not None and not texts:
        raise mistake(path, "stemcell_formats", "must be a list of texts", "leave it out to take the driver's")


def _resolve(path: str, key: str, value: Any) -> Any:
    """The value with every `{from_file}` and `{from_env}` in it replaced by what it names."""
    if isinstance(value, list):
        return [_resolve(path, key, one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"from_file"}:
        return _secret_file(path, key, value["from_file"])
    if value.keys() == {"from_env"}:
        name = value["from_env"]
        if not isinstance(name, str) or name not in os.environ:
            remedy = "set it, or use from_file: a BOSH Director passes no environment on"
            raise mistake(path, key, f"names the variable {name!r}, which is not set", remedy)
        return os.environ[name]
    return {name: _resolve(path, f"{key}.{name}", one) for name, one in value.items()}


def _secret_file(path: str, key: str, file: Any) -> str:
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123  # as above
            return opened.read().rstrip("\n")
    except (OSError, TypeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text file"
        raise mistake(path, key, f"names the file {file!r}: {reason}", "let this user read it") from None


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
