"""How objects of this cloud bear a mark: in their names, set by the creating call, and in tags soon after.

Names hold ten characters of the Director's uuid; the tag, where it is there already, holds all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark, read_group_cid, read_name
from coterie.ids import director_prefix

RESERVED = "coterie-"
DIRECTOR = "coterie-director"
GROUP = "coterie-group"
VIP = "coterie-vip"  # on a VM: the public addresses that are to lead to it
VALUE_LIMIT = 255
_SPACE = uuid.UUID("0f2f0d4e-8f3b-5d0a-b9f8-64f6f1c1a7d3")


def job_id(mark: Mark, purpose: str, attempt: int) -> str:
    """The uuid of the job that does this once: of many who try it with the same one, CloudStack lets in the first."""
    return str(uuid.uuid5(_SPACE, f"{mark.director}/{mark.intent}/{purpose}/{attempt}"))


def tags_of(row: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["key"]): str(tag.get("value", "")) for tag in row.get("tags") or ()}


def mark_of(row: Mapping[str, Any], director_uuid: str, text: str | None = None) -> Mark | None:
    """The mark that this Director has on a row; another's, a forged or an unreadable one is none."""
    found = read_name(str(row.get("name", "") if text is None else text))
    if found is None or not found.belongs_to(director_uuid):
        return None
    if tags_of(row).get(DIRECTOR, director_uuid) != director_uuid:
        return None
    return Mark(director_uuid, found.intent)


def owner_of(row: Mapping[str, Any], director_uuid: str) -> str | None:
    """Whoever has left a mark: by the tag, which holds the whole uuid, or else by the name."""
    named, tags = read_name(str(row.get("name", ""))), tags_of(row)
    group = read_group_cid(tags.get(GROUP, ""))
    return tags.get(DIRECTOR) or next((one.owner(director_uuid) for one in (named, group) if one), None)


def group_mark_of(row: Mapping[str, Any], director_uuid: str) -> Mark | None:
    """Affinity groups take no tags: name and description must both be ours."""
    found = read_group_cid(str(row.get("name", "")))
    if found is None or not found.belongs_to(director_uuid):
        return None
    if not str(row.get("description", "")).startswith(director_uuid):
        return None
    return Mark(director_uuid, found.intent)


def name_prefix(director_uuid: str) -> str:
    return f"cot-{director_prefix(director_uuid)}-"


def group_prefix(director_uuid: str) -> str:
    return f"cg-{director_prefix(director_uuid)}-"


def users_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as tags, cut to what the cloud takes; what would forge our own tags is refused."""
    for key in metadata:
        if key.startswith(RESERVED):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy=f"use keys that do not begin with {RESERVED}")
    return {key[:VALUE_LIMIT]: str(value)[:VALUE_LIMIT] for key, value in metadata.items()}


def entries(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As the API takes them; it refuses empty values."""
    return [{"key": key, "value": value} for key, value in tags.items() if value]
