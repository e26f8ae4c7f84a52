"""How objects of this cloud bear a mark: in their names, set by the creating call, and in tags soon after. Names hold
ten characters of the Director's uuid; the tag, where it is there already, holds all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import Mark, read_group_cid, read_name
from coterie.cpi.drivers.cloudstack.client import read_tags
from coterie.cpi.kit.marking import DIRECTOR, GROUP, metadata_tags, read_mark_name, read_mark_tags
from coterie.ids import director_prefix, is_uuid

VIP = "coterie-vip"  # on a VM: the public addresses that lead to it
_LONGEST = 255  # characters of a tag's key or value


def mark_tags(mark: Mark) -> dict[str, str]:
    """The intent is in the object's name."""
    return {DIRECTOR: mark.director}


def user_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    return metadata_tags(metadata, longest_key=_LONGEST, longest_value=_LONGEST)


def mark_of(row: Mapping[str, Any], director_uuid: str, text: str | None = None) -> Mark | None:
    """The mark that this Director has on a row, in its name or `text`; None for another's, a forged or unreadable
    one."""
    named = str(row.get("name", "") if text is None else text)
    if read_name(named) is None or read_tags(row).get(DIRECTOR, director_uuid) != director_uuid:
        return None
    return read_mark_name(named, director_uuid)


def group_mark_of(row: Mapping[str, Any], director_uuid: str) -> Mark | None:
    """Affinity groups take no tags: name and description must both be ours."""
    is_ours = str(row.get("description", "")).startswith(director_uuid)
    name = str(row.get("name", ""))
    return read_mark_name(name, director_uuid) if is_ours and read_group_cid(name) else None


def security_group_mark_of(row: Mapping[str, Any], director_uuid: str) -> Mark | None:
    """Users choose its name, so the mark is the first word of its description."""
    words = str(row.get("description") or "").split()
    return mark_of(row, director_uuid, words[0]) if words else None


def address_mark_of(row: Mapping[str, Any], director_uuid: str) -> Mark | None:
    """Addresses have no names: both halves of the mark are tags."""
    found = read_mark_tags(read_tags(row))
    return found if found and found.director == director_uuid else None


def owner_of(row: Mapping[str, Any], director_uuid: str) -> str | None:
    """The Director whose mark this is: by the tag, which holds the whole uuid, or else by the name."""
    named, tags = read_name(str(row.get("name", ""))), read_tags(row)
    group = read_group_cid(tags.get(GROUP, ""))
    return tags.get(DIRECTOR) or next((one.owner(director_uuid) for one in (named, group) if one), None)


def name_prefix(director_uuid: str) -> str:
    """What to look for in lists. Where the id is no uuid, release 0.1.0 wrote another prefix: then all of ours."""
    return f"cot-{director_prefix(director_uuid)}-" if is_uuid(director_uuid) else "cot-"


def group_prefix(director_uuid: str) -> str:
    return f"cg-{director_prefix(director_uuid)}-" if is_uuid(director_uuid) else "cg-"
