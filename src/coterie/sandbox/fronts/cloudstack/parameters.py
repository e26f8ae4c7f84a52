"""A request's parameters checked against the definition: known, typed, present, not too long. Whether a uuid means
something is `entities`' business."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from coterie.sandbox.fronts.cloudstack.definition import Command, Parameter, implicit_parameters
from coterie.sandbox.fronts.cloudstack.refusals import MALFORMED, PERMISSION, ApiError, refuse

_ENTRY = re.compile(r"^(?P<name>[a-z0-9]+)\[(?P<index>[^\]]*)\](?:\.(?P<key>.+))?$", re.IGNORECASE)
MOST_PER_PAGE = 500


def read(command: Command, raw: Mapping[str, str], *, admin: bool, strict: bool) -> dict[str, Any]:
    """Values by parameter name; a map becomes a list of its entries.

    Real servers are not `strict`: they pass over unknown names, and every flag that is not true is false.
    """
    values, unknown = _gather(command, raw)
    if unknown and strict:
        raise refuse(f"unknown parameters for {command.name}: {', '.join(sorted(unknown))}")
    found = {}
    for name, parameter in command.parameters.items():
        if name in values:
            lax = parameter.type == "boolean" and not strict
            found[name] = _value(command, parameter, _plain_flag(values[name]) if lax else values[name], admin)
        elif parameter.required:
            raise _missing(command, name)
    _check_page(found)
    return found


def _gather(command: Command, raw: Mapping[str, str]) -> tuple[dict[str, Any], set[str]]:
    values: dict[str, Any] = {}
    unknown = set()
    for name, value in raw.items():
        entry = _ENTRY.match(name)
        key = (entry["name"] if entry else name).lower()
        if key not in command.parameters:
            if key not in implicit_parameters():
                unknown.add(name)
        elif entry:
            values.setdefault(key, {}).setdefault(entry["index"], {})[entry["key"] or "value"] = value
        else:
            values[key] = value
    return values, unknown


def _value(command: Command, parameter: Parameter, given: Any, admin: bool) -> Any:
    if parameter.admin and not admin:
        raise ApiError(PERMISSION, f"only administrators may use parameter {parameter.name} of {command.name}")
    if isinstance(given, dict) != (parameter.type == "map"):
        raise ApiError(MALFORMED, f"parameter {parameter.name} of {command.name} is a {parameter.type}")
    if parameter.type == "map":
        return [given[index] for index in sorted(given)]
    if parameter.required and not given:
        raise _missing(command, parameter.name)
    if parameter.type == "list":
        return [_short(command, parameter, item) for item in given.split(",") if item]
    try:
        return _READERS.get(parameter.type, str)(_short(command, parameter, given))
    except ValueError:
        raise refuse(
            f"Unable to execute API command {command.name.lower()} due to invalid value. Invalid parameter "
            f"{parameter.name} value={given}: not a {parameter.type}"
        ) from None


def _short(command: Command, parameter: Parameter, text: str) -> str:
    if len(text) <= parameter.length:
        return text
    raise refuse(
        f"Value greater than max allowed length {parameter.length} for param: {parameter.name} of {command.name}"
    )


def _plain_flag(given: Any) -> str:
    return "true" if str(given).lower() == "true" else "false"


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _date(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


_READERS: dict[str, Callable[[str], Any]] = {"integer": int, "long": int, "boolean": _flag, "date": _date}


def _check_page(found: Mapping[str, Any]) -> None:
    if ("page" in found) != ("pagesize" in found):
        raise refuse('"page" and "pagesize" are required together')
    if found.get("pagesize", 1) > MOST_PER_PAGE:
        raise refuse(f"Page size can't exceed max allowed page size value: {MOST_PER_PAGE}")
    if found.get("pagesize", 1) < 1 or found.get("page", 1) < 1:
        raise refuse("page and pagesize begin at 1")


def _missing(command: Command, name: str) -> ApiError:
    return refuse(f"Unable to execute API command {command.name.lower()} due to missing parameter {name}")
