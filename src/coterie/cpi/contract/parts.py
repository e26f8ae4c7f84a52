"""Parts: what a cloud creates beside an object and under its mark, such as the port of a VM or the security group of a
server group. Marks can be copied by people, ids cannot: so the ids of parts are recorded, and only recorded parts, and
those of calls that never ended, are ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from coterie.cpi.contract.mark import Mark
from coterie.cpi.contract.types import Kind
from coterie.slotted import dataclass, field

# What the creation of one object may leave beside it, under the same mark.
PARTS_OF: Mapping[Kind, tuple[Kind, ...]] = {
    "server_group": ("security_group",),
    "vm": ("port", "ip", "keypair", "folder"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """`name`: what it was created as. `cid`: the cloud's id; None while the call is under way, and for good if its end
    is not known. `age_s`: seconds since it was begun, by the clock of what records it."""

    kind: Kind
    name: str
    cid: str | None
    age_s: float = field(default=0.0, compare=False)


class PartRecords(Protocol):
    """Each method is committed when it returns."""

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        """To be called right before the request that creates a part."""

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        """The id of a part, right after: an intent without an id gets it. A repeat changes nothing."""

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        """The request certainly created nothing."""

    def list_of(self, mark: Mark) -> list[Part]:
        """All parts that were ever begun under this mark, those that are gone, too."""


class UnrecordedParts:
    """For a driver without a ledger: parts are known by their marks only."""

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        """Nothing to do."""

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        """Nothing to do."""

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        """Nothing to do."""

    def list_of(self, mark: Mark) -> list[Part]:
        return []


def may_be_ours(parts: Sequence[Part], kind: Kind, cid: str) -> bool:
    """Whether an object with the mark of these parts is one of them: by its id, or as that of a call that never ended.
    Of objects that older releases created there is no record at all, not even an empty one."""
    ids = [part.cid for part in parts if part.kind == kind]
    return not parts or cid in ids or None in ids


def choose_ours(parts: Sequence[Part], kind: Kind, found: Iterable[tuple[str, str]]) -> list[str]:
    """Of objects that bear one mark, as (id, name) and the oldest first: the ids of those that were created under it.
    `parts`: of the mark; none at all, not even that of the object itself: an older release created it. An intent
    without an id stands for the oldest object of its name that is not recorded: a copy is younger than what it was
    copied from."""
    listed = list(found)
    if not parts:
        return [cid for cid, _ in listed]
    recorded = {part.cid for part in parts if part.kind == kind}
    begun = [part.name for part in parts if part.kind == kind and part.cid is None]
    ours = []
    for cid, name in listed:
        if cid in recorded:
            ours.append(cid)
        elif name in begun:
            begun.remove(name)
            ours.append(cid)
    return ours


def find_original(found: Sequence[tuple[str, float | None]]) -> str | None:
    """Of objects with one mark whose id the ledger does not know, as (CID, creation time): the oldest, since a copy is
    younger than what was copied. None: the times do not tell."""
    known = sorted((at, cid) for cid, at in found if at is not None)
    if len(known) < len(found) or (len(known) > 1 and known[0][0] == known[1][0]):
        return None
    return known[0][1]
