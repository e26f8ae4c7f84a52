"""Answers built of the fields that the definition has, and of no others; what only administrators see is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.errors import CoterieError
from coterie.sandbox.fronts.cloudstack.definition import fields, has_fields

# Fields that the definition does not mark, but that come from the full view of administrators only.
_FULL_VIEW = {
    "UserVmResponse": {"hostid", "hostname", "instancename"},
    "VolumeResponse": {"storage", "storageid", "podid", "clusterid", "path"},
}


class UnknownField(CoterieError):
    """A mistake of this front: it tried to answer something that the API has not."""

    code = "unknown_field"


def shape_response(response: str, value: Mapping[str, Any], admin: bool) -> dict[str, Any]:
    """The same value without Nones; nested objects are checked too."""
    known = fields(response)
    hidden = set() if admin else _FULL_VIEW.get(response, set())
    found = {}
    for name, item in value.items():
        if name not in known:
            raise UnknownField(f"{response} has no field {name!r}", remedy="report this: the emulator is wrong")
        if item is None or name in hidden or (known[name].admin and not admin):
            continue
        found[name] = _shape_nested(known[name].object, item, admin)
    return found


def _shape_nested(response: str | None, item: Any, admin: bool) -> Any:
    if response is None or not has_fields(response):
        return item
    if isinstance(item, list):
        return [shape_response(response, one, admin) for one in item]
    return shape_response(response, item, admin)
