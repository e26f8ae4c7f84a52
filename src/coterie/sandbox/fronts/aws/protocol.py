"""EC2's query protocol by the vendor's definition: requests are read strictly, answers are written in its shapes.

The definition is cut out of botocore's service files; see NOTICE. A parameter that the definition does not have, a
missing one that it requires, a value of another type or enum is refused as EC2 refuses it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from xml.sax.saxutils import escape

from coterie.sandbox.fronts.aws.refusals import ApiError

Json = dict[str, Any]
_FREE = {"InstanceType"}  # enums that grow with every new offer


@cache
def definition() -> Json:
    raw = (files("coterie.sandbox.fronts.aws") / "definition.json.gz").read_bytes()
    found: Json = json.loads(gzip.decompress(raw))
    return found


class Service:
    """One service of the definition."""

    def __init__(self, name: str) -> None:
        self._service = definition()[name]
        self.shapes: Json = self._service["shapes"]
        self.operations: Json = self._service["operations"]

    def read(self, action: str, parameters: Mapping[str, str]) -> Json:
        """The request as nested values."""
        if action not in self.operations:
            raise ApiError("InvalidAction", f"The action {action} is not valid for this web service.")
        used: set[str] = {"Action", "Version"}
        shape = self.operations[action].get("input", {}).get("shape")
        found: Json = self._read(shape, "", parameters, used) if shape else {}
        for name in parameters:
            if name not in used:
                raise ApiError("UnknownParameter", f"The parameter {name} is not recognized")
        return found

    def write(self, action: str, answer: Mapping[str, Any]) -> str:
        shape = self.operations[action].get("output", {}).get("shape")
        return "".join(self._members(shape, answer)) if shape else "<return>true</return>"

    def _read(self, name: str, prefix: str, given: Mapping[str, str], used: set[str]) -> Any:
        shape = self.shapes[name]
        if shape["type"] == "structure":
            return self._read_structure(shape, prefix, given, used)
        if shape["type"] == "list":
            numbers = sorted(
                {int(found[1]) for key in given if (found := re.match(rf"{re.escape(prefix)}\.(\d+)", key))}
            )
            return [self._read(shape["member"]["shape"], f"{prefix}.{number}", given, used) for number in numbers]
        used.add(prefix)
        return _scalar(shape, name, prefix, given.get(prefix, ""))

    def _read_structure(self, shape: Json, prefix: str, given: Mapping[str, str], used: set[str]) -> Json:
        found: Json = {}
        for name, member in shape["members"].items():
            key = member.get("queryName") or _capital(member.get("locationName") or name)
            full = f"{prefix}.{key}" if prefix else key
            if full in given or any(one.startswith(f"{full}.") for one in given):
                found[name] = self._read(member["shape"], full, given, used)
            elif name in shape.get("required", ()):
                raise ApiError("MissingParameter", f"The request must contain the parameter {full}")
        return found

    def _members(self, name: str, value: Mapping[str, Any]) -> Iterator[str]:
        members = self.shapes[name]["members"]
        unknown = set(value) - set(members)
        if unknown:
            raise AssertionError(f"{name} has no {', '.join(sorted(unknown))}")
        for key, member in members.items():
            if value.get(key) is not None:
                tag = member.get("locationName") or key
                yield f"<{tag}>{self._value(member['shape'], value[key])}</{tag}>"

    def _value(self, name: str, value: Any) -> str:
        shape = self.shapes[name]
        if shape["type"] == "structure":
            return "".join(self._members(name, value))
        if shape["type"] == "list":
            tag, inner = shape["member"].get("locationName") or "item", shape["member"]["shape"]
            return "".join(f"<{tag}>{self._value(inner, one)}</{tag}>" for one in value)
        if shape["type"] == "timestamp":
            return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if isinstance(value, bool):
            return "true" if value else "false"
        return escape(str(value))


def _scalar(shape: Json, name: str, where: str, text: str) -> Any:
    if shape["type"] in ("integer", "long"):
        if not re.fullmatch(r"-?\d+", text):
            raise ApiError("InvalidParameterValue", f"Value ({text}) for parameter {where} is invalid.")
        if not shape.get("min", -(2**63)) <= int(text) <= shape.get("max", 2**63):
            raise ApiError("InvalidParameterValue", f"Value ({text}) for parameter {where} is out of range.")
        return int(text)
    if shape["type"] == "boolean":
        if text not in ("true", "false"):
            raise ApiError("InvalidParameterValue", f"Value ({text}) for parameter {where} is invalid.")
        return text == "true"
    if shape.get("enum") and text not in shape["enum"] and name not in _FREE:
        raise ApiError("InvalidParameterValue", f"Value ({text}) for parameter {where} is invalid.")
    return text


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
