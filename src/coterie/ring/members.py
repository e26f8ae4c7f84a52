"""Members of the fleet as rings see them; the rules for group names and releases. Liveness is decided elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from coterie.errors import UsageError
from coterie.ring.hash import PROBED

LONGEST_GROUP = 255
GROUPS_SINCE = "0.1"  # the first release whose ring keys hold the group
_GROUP = re.compile(r"[a-zA-Z0-9_.-]*")
_RELEASE = re.compile(r"\d{1,6}(\.\d{1,6}){0,3}")


@dataclass(frozen=True, slots=True)
class Member:
    """`speaks`: the release it behaves as. `flows` None: not reported; it counts as able to run all."""

    name: str
    group: str = ""
    drivers: frozenset[str] = frozenset()
    speaks: str = GROUPS_SINCE
    every_group: bool = False  # steps in wherever a group has no conductor of its own
    weight: float = 1.0
    algorithm: str = PROBED
    flows: frozenset[str] | None = None

    def knows(self, flow: str | None) -> bool:
        return flow is None or self.flows is None or flow in self.flows


def fold(group: str) -> str:
    """How two spellings of a group are compared, everywhere."""
    return group.lower()


def group_name(value: str, field: str = "conductor_group") -> str:
    """A checked and folded group name. No colon may enter: ring keys would become ambiguous."""
    if len(value) > LONGEST_GROUP:
        raise UsageError(
            f"{field}: the group's name has {len(value)} characters", remedy=f"use at most {LONGEST_GROUP}"
        )
    if not _GROUP.fullmatch(value):
        raise UsageError(
            f"{field}: {value!r} has characters that a conductor group cannot have",
            remedy="use letters, digits, '_', '.' and '-'",
        )
    return fold(value)


def groups_count(members: Iterable[Member]) -> bool:
    """Whether ring keys hold the group: only when no conductor behaves as a release from before groups.

    All conductors read the same rows, so all change over together, with the last one that is unpinned.
    """
    return all(holds_groups(member.speaks) for member in members)


def holds_groups(speaks: str) -> bool:
    """Whether the ring keys of this release hold the group."""
    return release(speaks) >= release(GROUPS_SINCE)


def release(text: str) -> tuple[int, ...]:
    found = _RELEASE.match(text)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
