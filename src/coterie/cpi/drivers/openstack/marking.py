"""How objects of this cloud bear a mark: tags of servers and images, metadata of volumes and snapshots, names and
descriptions where a creating call takes nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark, read_group_cid, read_name
from coterie.ids import INTENT_LENGTH

RESERVED = "coterie-"
DIRECTOR, INTENT, GROUP = "coterie-director", "coterie-intent", "coterie-group"
# tags of a server that has floating addresses, volumes of its own, or a keypair that we registered
VIP, VOLUME, KEY = "coterie-vip", "coterie-volume", "coterie-key"
VALUE_LIMIT = 255


def director_tag(director_uuid: str) -> str:
    return f"{DIRECTOR}-{director_uuid}"


def tags(mark: Mark) -> list[str]:
    """Short enough for Nova, which takes 60 characters, and no slash and no comma."""
    return [director_tag(mark.director), f"{INTENT}-{mark.intent}"]


def group_tag(cid: str) -> str:
    return f"{GROUP}-{cid}"


def mark_of_tags(found: Iterable[str]) -> Mark | None:
    """One Director and one intent; anything else is no proof."""
    directors = [one.removeprefix(f"{DIRECTOR}-") for one in found if one.startswith(f"{DIRECTOR}-")]
    intents = [one.removeprefix(f"{INTENT}-") for one in found if one.startswith(f"{INTENT}-")]
    return _mark(directors[0], intents[0]) if len(directors) == len(intents) == 1 else None


def owner_of(found: Iterable[str], name: str, director_uuid: str) -> str | None:
    """Whoever has left a mark on a server: by the tag, which holds the whole uuid, or else by the name."""
    directors = [one.removeprefix(f"{DIRECTOR}-") for one in found if one.startswith(f"{DIRECTOR}-")]
    named = read_name(name)
    return next(iter(directors), named.owner(director_uuid) if named else None)


def metadata(mark: Mark) -> dict[str, str]:
    return {DIRECTOR: mark.director, INTENT: mark.intent}


def mark_of_metadata(found: Mapping[str, Any]) -> Mark | None:
    return _mark(str(found.get(DIRECTOR, "")), str(found.get(INTENT, "")))


def description(mark: Mark) -> str:
    return f"{mark.name()} {mark.director}"


def mark_of_description(text: str | None) -> Mark | None:
    words = (text or "").split()
    named = read_name(words[0]) if len(words) == 2 else None
    if named is None or not named.belongs_to(words[1]):
        return None
    return _mark(words[1], named.intent)


def mark_of_name(name: str, director_uuid: str) -> Mark | None:
    """For kinds that have nothing but a name: ten characters of the Director, and an intent nobody can guess."""
    found = read_name(name) or read_group_cid(name)
    return Mark(director_uuid, found.intent) if found and found.belongs_to(director_uuid) else None


def users_metadata(given: Mapping[str, Any]) -> dict[str, str]:
    """Cut to what the cloud takes; what would forge our own is refused."""
    for key in given:
        if key.startswith(RESERVED):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy=f"use keys that do not begin with {RESERVED}")
    return {key[:VALUE_LIMIT]: str(value)[:VALUE_LIMIT] for key, value in given.items()}


def _mark(director: str, intent: str) -> Mark | None:
    return Mark(director, intent) if director and len(intent) == INTENT_LENGTH else None
