"""What an object is to a caller without our Director: the evidence is its mark and the CIDs that the caller knows.

Pure; the Director's own evidence is weighed in `findings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from coterie.cpi.contract import CloudObject, Kind

# in_use  the ledger knows it
# orphan  our mark, unknown to the ledger, unused, old enough: it may go
# young   would be an orphan, but the grace period has not passed: its creator may still be writing it down
# foreign not our mark: never touched
# keep    the evidence is missing or contradicts itself
Verdict = Literal["in_use", "orphan", "young", "foreign", "keep"]
NEVER_DELETED: frozenset[Kind] = frozenset({"network"})


@dataclass(frozen=True, slots=True)
class Finding:
    object: CloudObject
    verdict: Verdict
    reason: str


def judge(
    found: CloudObject, director_uuid: str, known: Collection[str] | None, *, now: float, grace_s: float
) -> Finding:
    """`known`: CIDs of this kind that the ledger holds; None means that there is no ledger to ask."""
    if found.mark is None:
        return Finding(found, "foreign", "it carries no mark")
    if found.mark.director != director_uuid:
        return Finding(found, "foreign", "it belongs to another Director")
    if known is None:
        return Finding(found, "keep", "there is no ledger that could say whether it is in use")
    if found.cid in known and not _left_by_compilation(found):
        return Finding(found, "in_use", "the ledger knows it")
    if found.kind in NEVER_DELETED:
        return Finding(found, "keep", f"a {found.kind} is listed, never deleted")
    if found.in_use_by is None:
        return Finding(found, "keep", "the cloud does not say whether anything uses it")
    if found.in_use_by:
        return Finding(found, "keep", f"used by {', '.join(found.in_use_by)}")
    if found.created_at is None:
        return Finding(found, "keep", "the cloud does not say how old it is")
    if now - found.created_at < grace_s:
        return Finding(found, "young", f"made less than {grace_s:.0f} s ago")
    if _left_by_compilation(found):
        return Finding(found, "orphan", "a compilation VM left this group behind, and nothing is in it")
    return Finding(found, "orphan", "our mark is on it, the ledger does not know it, nothing uses it")


def _left_by_compilation(found: CloudObject) -> bool:
    """BOSH names every compilation VM anew, so a group that one of them leaves is never used again."""
    if found.kind != "server_group":
        return False
    words = (found.name, *(found.tags or {}).values())
    return any("compilation-" in word for word in words)
