"""Marks as tags and names, for clouds that keep either, and the keys that users' metadata may not have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark, NameTaken, read_group_cid, read_name
from coterie.ids import INTENT_LENGTH

RESERVED = "coterie-"
DIRECTOR = "coterie-director"
INTENT = "coterie-intent"
GROUP = "coterie-group"  # the CID of the server group that a VM or another object belongs to


def mark_tags(mark: Mark) -> dict[str, str]:
    return {DIRECTOR: mark.director, INTENT: mark.intent}


def read_mark_tags(tags: Mapping[str, Any]) -> Mark | None:
    """The mark in these tags; tags that only look like one are none."""
    director, intent = str(tags.get(DIRECTOR) or ""), str(tags.get(INTENT) or "")
    return Mark(director, intent) if director and len(intent) == INTENT_LENGTH else None


def read_mark_name(name: str, director_uuid: str) -> Mark | None:
    """The mark of this Director in the name of an object or the CID of a server group."""
    found = read_name(name) or read_group_cid(name)
    return Mark(director_uuid, found.intent) if found and found.belongs_to(director_uuid) else None


def require_mark(found: Mark | None, mark: Mark, what: str) -> None:
    """For what has the name of a mark: only that mark itself makes it ours."""
    if found != mark:
        raise NameTaken(f"{what} has the name of {mark.name()}, but not its mark", remedy="find out who made it")


def metadata_tags(
    metadata: Mapping[str, Any], *, longest_key: int | None = None, longest_value: int | None = None
) -> dict[str, str]:
    """Users' metadata as tags, cut to what the cloud takes. Keys that would forge our own tags are refused."""
    for key in metadata:
        if key.startswith(RESERVED):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy=f"use keys that do not begin with {RESERVED}")
    return {key[:longest_key]: str(value)[:longest_value] for key, value in metadata.items()}
