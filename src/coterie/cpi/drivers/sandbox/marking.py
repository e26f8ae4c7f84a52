"""Which tags the driver writes onto objects. A mark is two tags, set in the creating call, hence atomic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark
from coterie.sandbox.pages import Filter

RESERVED = "coterie-"
DIRECTOR = "coterie-director"
INTENT = "coterie-intent"
GROUP = "coterie-group"  # the CID of the server group that a VM, label, security group or zone's group belongs to
OWN_GUARDS = "coterie-own-security-groups"  # security groups that a VM has for itself, not from its group


def mark_tags(mark: Mark) -> dict[str, str]:
    return {DIRECTOR: mark.director, INTENT: mark.intent}


def read_mark(tags: Mapping[str, str]) -> Mark | None:
    """The mark in these tags; tags that only look like one are none."""
    try:
        return Mark(tags[DIRECTOR], tags[INTENT])
    except (KeyError, ValueError):
        return None


def with_mark(mark: Mark) -> Filter:
    return Filter(tag=(INTENT, mark.intent))


def of_director(director_uuid: str) -> Filter:
    return Filter(tag=(DIRECTOR, director_uuid))


def of_group(cid: str) -> Filter:
    return Filter(tag=(GROUP, cid))


def users_tags(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Metadata as tags; what would forge or break our own tags is refused."""
    for key in metadata:
        if key.startswith(RESERVED):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy=f"use keys that do not begin with {RESERVED}")
    return {key: str(value) for key, value in metadata.items()}
