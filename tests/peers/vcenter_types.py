"""The types that the vSphere API declares, from pyVmomi's own definitions: the simulated vCenter checks requests by
them. Nothing here is listed by hand."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pyVmomi
from pyVmomi import VmomiSupport

_API_VERSION = "vim.version.version13"  # as the driver speaks it: what is newer does not exist
_OPTIONAL = VmomiSupport.F_OPTIONAL


def write_types(folder: Path) -> Path:
    """A file with the declared types; written once for each release of pyVmomi."""
    path = folder / f"types-{getattr(pyVmomi, '__version__', 'unknown')}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w") as file:
            json.dump(declared_types(), file)
        os.replace(name, path)  # two processes may write it at the same time
    return path


def declared_types() -> dict[str, Any]:
    """By their names on the wire: managed objects with properties and methods, data objects, enumerations."""
    managed, data = _definitions(VmomiSupport._managedDefMap), _definitions(VmomiSupport._dataDefMap)
    enums = _definitions(VmomiSupport._enumDefMap)
    names = {one[0]: one[1] for one in (*managed, *data, *enums)}
    return {
        "managed": {
            one[1]: {
                "base": names.get(_full(one[2])),
                "fields": _fields(one[4] or (), names),
                "methods": {method[1]: _fields(method[3] or (), names) for method in one[5] or ()},
            }
            for one in managed
        },
        "data": {one[1]: {"base": names.get(_full(one[2])), "fields": _fields(one[4] or (), names)} for one in data},
        "enums": {one[1]: list(one[3]) for one in enums},
    }


def _definitions(table: dict[str, Any]) -> list[Any]:
    return [one for name, one in table.items() if name.startswith(("vim.", "vmodl.", "ManagedObject", "DataObject"))]


def _fields(rows: Any, names: dict[str, str]) -> dict[str, dict[str, Any]]:
    versions = VmomiSupport.parentMap[_API_VERSION]
    return {
        row[0]: {
            "type": names.get(_full(row[1].removesuffix("[]")), row[1].removesuffix("[]")),
            "many": row[1].endswith("[]"),
            "optional": bool(row[3] & _OPTIONAL),
        }
        for row in rows
        if row[2] in versions or row[2] == _API_VERSION
    }


def _full(name: str | None) -> str | None:
    """`vmodl.ManagedObject` and `ManagedObject` are the same."""
    return name.removeprefix("vmodl.") if name in ("vmodl.ManagedObject", "vmodl.DataObject") else name
