"""Marks: what makes a cloud object provably ours.

The caller makes a mark and commits it to its ledger before it calls; the driver only writes it onto the object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.ids import INTENT_LENGTH, director_prefix, old_director_prefix
from coterie.slotted import dataclass

# Fewer than ten characters: release 0.1.0 wrote so for a Director whose id was no uuid.
_NAME = re.compile(r"^cot-(?P<director>[0-9a-z]{1,10})-(?P<intent>[0-9a-z]{26})(?:-(?P<readable>.*))?$")
_CID = re.compile(r"^cg-(?P<director>[0-9a-z]{1,10})-(?P<intent>[0-9a-z]{26})$")
ADOPTED_PREFIX = "ext-"


@dataclass(frozen=True, slots=True)
class Mark:
    """`director`: the owner's uuid. `intent`: the 26-character id of the ledger row behind the object."""

    director: str
    intent: str

    def __post_init__(self) -> None:
        if len(self.intent) != INTENT_LENGTH:
            raise ValueError(f"an intent has {INTENT_LENGTH} characters, not {len(self.intent)}")

    @property
    def group_cid(self) -> str:
        """The server-group CID that follows from this mark; known before the cloud is called."""
        return f"cg-{director_prefix(self.director)}-{self.intent}"

    def name(self, readable: str = "", limit: int = 63) -> str:
        """The structured name for clouds that mark by name; the readable part is cut to `limit`."""
        stem = f"cot-{director_prefix(self.director)}-{self.intent}"
        return f"{stem}-{readable}"[:limit].rstrip("-") if readable else stem

    def wire(self) -> dict[str, str]:
        return {"director": self.director, "intent": self.intent}

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> Mark:
        return Mark(str(value["director"]), str(value["intent"]))


@dataclass(frozen=True, slots=True)
class NameMark:
    """What can be read back from a structured name: ten characters of the director, and the intent."""

    director_prefix: str
    intent: str

    def belongs_to(self, director_uuid: str) -> bool:
        return self.director_prefix in (director_prefix(director_uuid), old_director_prefix(director_uuid))

    def owner(self, director_uuid: str) -> str:
        """The whole uuid if it is this Director's; of another's, all that is known."""
        return director_uuid if self.belongs_to(director_uuid) else self.director_prefix


def read_name(name: str) -> NameMark | None:
    """The mark inside a structured name, or None where the name is not one of ours."""
    found = _NAME.match(name)
    return NameMark(found["director"], found["intent"]) if found else None


def read_group_cid(cid: str) -> NameMark | None:
    """The mark inside a server-group CID of ours, or None for adopted or foreign ones."""
    found = _CID.match(cid)
    return NameMark(found["director"], found["intent"]) if found else None


def is_adopted(cid: str) -> bool:
    """True for the handle of an operator's group: joined and left, never changed or deleted."""
    return cid.startswith(ADOPTED_PREFIX)
