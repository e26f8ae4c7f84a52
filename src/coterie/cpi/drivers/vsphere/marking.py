"""How marks are written: a structured name, an instance uuid that follows from the whole mark, and folders that bear
the Director's uuid. Name and uuid are set by the creating call. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark, read_group_cid, read_name

GROUP = "coterie-group"  # the custom attribute of a VM that names the group it belongs to
RESERVED = "coterie-"
NAME_LIMIT = 80
_SPACE = uuid.UUID("6f6a5c4c-7b0f-5c58-9b0a-3c5f7f8a2d11")
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def instance_uuid(mark: Mark) -> str:
    """The id of the VM or template with this mark: found by one search, and readable by nobody who lacks the mark."""
    return str(uuid.uuid5(_SPACE, f"{mark.director}/{mark.intent}"))


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None


def vm_mark(name: str, found_uuid: str, director_uuid: str) -> Mark | None:
    """The mark of a VM, if this Director has set it: the name says which, the uuid proves it."""
    read = read_name(name)
    if read is None or not read.belongs_to(director_uuid):
        return None
    mark = Mark(director_uuid, read.intent)
    return mark if instance_uuid(mark) == found_uuid else None


def owner_of(path: Sequence[str], attributes: Mapping[str, str], director_uuid: str) -> str | None:
    """Whoever has left a mark on a VM. `path`: its name and those of the folders that it lies in, inmost first."""
    name, drawer, above = (*path, "", "", "")[:3]
    if drawer == "vms" and is_uuid(above):
        return above
    read = read_name(name) or read_group_cid(attributes.get(GROUP, ""))
    return read.owner(director_uuid) if read else None


def file_mark(stem: str, director_uuid: str) -> Mark | None:
    """The mark of a file that lies in this Director's folder."""
    read = read_name(stem)
    return Mark(director_uuid, read.intent) if read and read.belongs_to(director_uuid) else None


def group_mark(cid: str, director_uuid: str) -> Mark | None:
    """The mark of a group whose label lies in this Director's folder."""
    read = read_group_cid(cid)
    return Mark(director_uuid, read.intent) if read and read.belongs_to(director_uuid) else None


def users_attributes(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as custom attributes; what would forge our own is refused."""
    for key in metadata:
        if key.startswith(RESERVED):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy=f"use keys that do not begin with {RESERVED}")
    return {key[:NAME_LIMIT]: str(value) for key, value in metadata.items()}


def escaped(name: str) -> str:
    """A name as the inventory takes it: these three characters are written as numbers."""
    return name.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")


def unescaped(name: str) -> str:
    return name.replace("%2f", "/").replace("%5c", "\\").replace("%25", "%")
