"""The vendor's definition, cut to what a CPI needs: which methods there are, and what their requests may hold.

`definition.json.gz` was cut out of Google's discovery document (NOTICE names the package). Three things are known that
it does not say: what is required of a body, that lists take `returnPartialSuccess` (its own descriptions recommend it),
and that clients write `$alt`.
"""

from __future__ import annotations

import gzip
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coterie.sandbox.fronts.gcp.refusals import ApiError, invalid

_FILE = Path(__file__).with_name("definition.json.gz")
_BEYOND = ("$alt", "returnPartialSuccess")
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "instances.insert": ("name", "machineType", "disks", "networkInterfaces"),
    "disks.insert": ("name",),
    "images.insert": ("name",),
    "snapshots.insert": ("name", "sourceDisk"),
    "resourcePolicies.insert": ("name",),
    "firewalls.insert": ("name",),
    "addresses.insert": ("name",),
    "networks.insert": ("name",),
    "subnetworks.insert": ("name", "network", "ipCidrRange"),
    "nodeGroups.insert": ("name", "nodeTemplate"),
    "instances.attachDisk": ("source",),
    "disks.resize": ("sizeGb",),
}
_NUMBERS = {"uint64": r"\d{1,20}", "int64": r"-?\d{1,19}"}


@dataclass(frozen=True, slots=True)
class Method:
    """`id` like instances.insert; `names`: the segments that the URL leaves open."""

    id: str
    verb: str
    path: re.Pattern[str]
    parameters: Mapping[str, Mapping[str, Any]]
    request: str | None
    answer: str | None

    @property
    def kind(self) -> str:
        return self.id.partition(".")[0]

    @property
    def action(self) -> str:
        return self.id.partition(".")[2]


@cache
def document() -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(_FILE.read_bytes())))


@cache
def _methods() -> list[Method]:
    return [
        Method(
            id_,
            one["httpMethod"],
            re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", one["path"])),
            one.get("parameters", {}),
            (one.get("request") or {}).get("$ref"),
            (one.get("response") or {}).get("$ref"),
        )
        for id_, one in document()["methods"].items()
    ]


def find_method(verb: str, path: str) -> tuple[Method, dict[str, str]]:
    """The method behind a path below /compute/v1/; the most literal one wins."""
    found = [(one, match.groupdict()) for one in _methods() if one.verb == verb and (match := one.path.fullmatch(path))]
    if not found:
        raise ApiError(404, "notFound", f"The requested URL {path} was not found on this server.")
    method, names = min(found, key=lambda each: len(each[1]))
    for name, value in names.items():
        pattern = method.parameters[name].get("pattern")
        if pattern and not re.fullmatch(pattern, value):
            raise invalid(f"Invalid value '{value}'. Values must match the following regular expression: '{pattern}'")
    return method, names


def require_queries(method: Method, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        known = method.parameters.get(name)
        if known is None and (name in document()["parameters"] or name in _BEYOND):
            continue
        if known is None or known["location"] != "query":
            text = f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
            raise ApiError(400, "badRequest", text)
        if known["type"] == "integer" and not value.isdecimal():
            raise invalid(f"Invalid value for field '{name}': '{value}'.")
        if known["type"] == "boolean" and value not in ("true", "false"):
            raise invalid(f"Invalid value for field '{name}': '{value}'.")
    if "requestId" in given:
        try:
            if uuid.UUID(given["requestId"]).int == 0:
                raise ValueError
        except ValueError:
            raise invalid(f"Invalid value for field 'requestId': '{given['requestId']}'.") from None
    size = given.get("maxResults")
    if size and not 0 <= int(size) <= 500:
        raise invalid(f"Invalid value for field 'maxResults': '{size}'. must be between 0 and 500")


def require_body(method: Method, body: Any) -> None:
    if method.request is None:
        if body not in (None, {}):
            raise ApiError(400, "badRequest", f"{method.id} takes no body.")
        return
    if not isinstance(body, Mapping):
        raise ApiError(400, "required", f"{method.id} needs a body.")
    mistakes = list(_mistakes(document()["schemas"][method.request], body, "resource"))
    if mistakes:
        raise ApiError(400, "badRequest", "; ".join(mistakes[:5]))
    for name in _REQUIRED.get(method.id, ()):
        if body.get(name) in (None, "", []):
            raise ApiError(400, "required", f"Invalid value for field 'resource.{name}': ''. Required field.")


def _mistakes(schema: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = document()["schemas"][schema["$ref"]]
    if "properties" in schema:
        if not isinstance(value, Mapping):
            yield f"Invalid value at '{at}' ({schema.get('id')})"
            return
        for key, one in value.items():
            field = schema["properties"].get(key)
            if field is None:
                yield f"Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field."
            elif field.get("readOnly"):
                yield f"Invalid value for field '{at}.{key}': it is output only."
            elif one is not None:
                yield from _mistakes(field, one, f"{at}.{key}")
    elif schema.get("type") == "array":
        if not isinstance(value, list):
            yield f"Invalid value at '{at}': not a list"
            return
        for number, one in enumerate(value):
            yield from _mistakes(schema["items"], one, f"{at}[{number}]")
    elif "additionalProperties" in schema:
        if not isinstance(value, Mapping):
            yield f"Invalid value at '{at}': not an object"
            return
        for key, one in value.items():
            yield from _mistakes(schema["additionalProperties"], one, f"{at}.{key}")
    elif not _fits(schema, value):
        yield f"Invalid value for field '{at}': '{value}'."


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    match schema.get("type"):
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "string":
            text = str(value) if isinstance(value, int) and schema.get("format") in _NUMBERS else value
            if not isinstance(text, str) or ("enum" in schema and text not in schema["enum"]):
                return False
            pattern = schema.get("pattern") or _NUMBERS.get(str(schema.get("format")))
            return not pattern or re.fullmatch(pattern, text) is not None
    return True
