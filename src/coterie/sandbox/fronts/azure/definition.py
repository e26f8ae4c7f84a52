"""The vendor's definition, cut to what a CPI needs: which operations there are, and what their bodies may hold.

`definition.json.gz` was read out of Microsoft's Python SDK (MIT licence; NOTICE names the packages). It is thin on what
is required, so `DEMANDED` adds what ARM itself refuses to do without. Sizes of VMs are open: the enum of them is stale.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coterie.sandbox.fronts.azure.refusals import ApiError

_FILE = Path(__file__).with_name("definition.json.gz")
_OPEN_ENUMS = {"VirtualMachineSizeTypes"}
_OLDEST, _ANY_VERSION = "2021-03-01", "2999-01-01"
_NEEDS_VERSION = {"attachDetachDataDisks": "2024-03-01"}
DEMANDED: Mapping[str, tuple[str, ...]] = {
    "NetworkInterface": ("location", "properties"),
    "NetworkInterfacePropertiesFormat": ("ipConfigurations",),
    "NetworkSecurityGroup": ("location",),
    "ApplicationSecurityGroup": ("location",),
    "PublicIPAddress": ("location",),
    "VirtualMachine": ("properties",),
    "VirtualMachineProperties": ("networkProfile", "storageProfile"),
    "AvailabilitySet": ("sku",),
    "Disk": ("properties",),
    "Snapshot": ("properties",),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """`names`: the segments of the path that the URL leaves open, by their names in the definition."""

    name: str
    service: str
    method: str
    segments: tuple[str, ...]
    body: str | None
    queries: frozenset[str]
    headers: frozenset[str]
    version: str
    is_list: bool

    @property
    def type(self) -> str:
        """Like virtualMachines, or networkSecurityGroups/securityRules."""
        at = max((n for n, part in enumerate(self.segments) if part.lower() == "providers"), default=-1)
        own = [part for part in self.segments[at + 2 :] if not part.startswith("{")]
        return "/".join(own)

    def fit(self, parts: list[str]) -> dict[str, str] | None:
        found = {}
        for wanted, given in zip(self.segments, parts, strict=True):
            if wanted.startswith("{"):
                found[wanted.strip("{}")] = given
            elif wanted.lower() != given.lower():
                return None
        return found


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(_FILE.read_bytes())))


@cache
def _operations() -> dict[tuple[str, int], list[Operation]]:
    found: dict[tuple[str, int], list[Operation]] = {}
    for service, parts in _document().items():
        for name, one in parts["operations"].items():
            segments = tuple(one["url"].partition("?")[0].strip("/").split("/"))
            made = Operation(
                name,
                service,
                one["method"],
                segments,
                one.get("body"),
                frozenset(one["query"]),
                frozenset(header.lower() for header in one.get("headers") or ()),
                one.get("version") or _ANY_VERSION,
                bool(one.get("paged")),
            )
            found.setdefault((made.method, len(segments)), []).append(made)
    return found


def find_operation(method: str, path: str) -> tuple[Operation, dict[str, str]]:
    """The operation behind a URL, and what its open segments are. The most literal one wins."""
    parts = path.strip("/").split("/")
    fitting = []
    for one in _operations().get((method, len(parts)), ()):
        names = one.fit(parts)
        if names is not None:
            fitting.append((sum(part.startswith("{") for part in one.segments), one, names))
    if not fitting:
        raise ApiError(404, "InvalidResourceType", f"The resource type could not be found for {method} {path}.")
    _, found, names = min(fitting, key=lambda each: each[0])
    return found, names


def require_version(operation: Operation, given: str | None) -> None:
    if not given:
        raise ApiError(400, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required")
    oldest = _NEEDS_VERSION.get(operation.segments[-1], _OLDEST)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", given) or not oldest <= given <= operation.version:
        text = (
            f"The api-version '{given}' is invalid for {operation.name}: use one from {oldest} to {operation.version}."
        )
        raise ApiError(400, "InvalidApiVersionParameter", text)


def require_queries(operation: Operation, given: Mapping[str, str]) -> None:
    known = {one.lower() for one in operation.queries} | {"api-version", "$skiptoken"}
    for name in given:
        if name.lower() not in known:
            raise ApiError(400, "InvalidQueryParameter", f"{operation.name} takes no query parameter {name}.")


def require_body(operation: Operation, body: Any) -> None:
    if operation.body is None:
        if body not in (None, {}):
            raise ApiError(400, "InvalidRequestContent", f"{operation.name} takes no body.")
        return
    if not isinstance(body, Mapping):
        raise ApiError(400, "InvalidRequestContent", f"{operation.name} needs a body.")
    mistakes = list(_mistakes(operation.service, operation.body, body, "", operation.method == "PUT"))
    if mistakes:
        raise ApiError(400, "InvalidRequestContent", "The request content was invalid: " + "; ".join(mistakes[:5]))


@cache
def fields_of(service: str, model: str) -> dict[str, dict[str, Any]]:
    found = _document()[service]["models"][model]
    fields: dict[str, dict[str, Any]] = {}
    for base in found["bases"]:
        fields |= fields_of(service, base)
    return {**fields, **found["fields"]}


def _mistakes(service: str, model: str, value: Mapping[str, Any], at: str, creates: bool) -> Iterator[str]:
    known = fields_of(service, model)
    for key, one in value.items():
        where, field = f"{at}.{key}".strip("."), known.get(key)
        if field is None:
            yield f"{where}: unknown field of {model}"
        elif field.get("readonly"):
            yield f"{where}: read-only"
        elif one is not None:
            yield from _wrong_value(service, field, one, where, creates)
    required = {key for key, field in known.items() if field.get("required") and not field.get("readonly")}
    for key in sorted(required | set(DEMANDED.get(model, ()))) if creates and not _is_reference(value) else ():
        if key not in value:
            yield f"{at}.{key}".strip(".") + ": required"


def _is_reference(value: Mapping[str, Any]) -> bool:
    """A whole resource may stand in a body by its id alone."""
    return set(value) == {"id"}


def _wrong_value(service: str, field: Mapping[str, Any], value: Any, where: str, creates: bool) -> Iterator[str]:
    parts = _document()[service]
    words = parts["enums"].get(field.get("enum"))
    if "list" in field:
        if not isinstance(value, list):
            yield f"{where}: not a list"
            return
        for n, one in enumerate(value):
            yield from _wrong_value(service, field["list"], one, f"{where}[{n}]", creates)
    elif "map" in field:
        if not isinstance(value, Mapping):
            yield f"{where}: not an object"
            return
        for key, one in value.items():
            yield from _wrong_value(service, field["map"], one, f"{where}.{key}", creates)
    elif field.get("ref") in parts["models"]:
        if not isinstance(value, Mapping):
            yield f"{where}: not an object"
            return
        yield from _mistakes(service, field["ref"], value, where, creates)
    elif words and field["enum"] not in _OPEN_ENUMS:
        if not isinstance(value, str) or value.lower() not in {word.lower() for word in words}:
            yield f"{where}: {value!r} is none of {field['enum']}"
    elif field.get("type") == "int" and (not isinstance(value, int) or isinstance(value, bool)):
        yield f"{where}: not an integer"
    elif field.get("type") == "bool" and not isinstance(value, bool):
        yield f"{where}: not a boolean"
    elif field.get("type") == "str" and not isinstance(value, str):
        yield f"{where}: not a text"
