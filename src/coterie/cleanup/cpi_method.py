"""The CPI method `cleanup`, for callers without our Director: list, judge, and delete what is proven to be unused.

The evidence is an object's mark, the CIDs that the caller knows, and since when each object has been unknown.
`findings` judges by the Director's own evidence.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from coterie.cleanup.options import DELETION_ORDER
from coterie.cleanup.plan import FEW
from coterie.cpi.contract import (
    PARTS_OF,
    Changed,
    CloudObject,
    Cpi,
    CpiError,
    Expected,
    InvalidCall,
    Kind,
    Mark,
    find_original,
    opt_out_reason,
)

# in_use  the ledger knows it
# orphan  our mark, unknown to the ledger, unused, old enough: it may go
# young   would be an orphan, but the grace period has not passed since it was made or first found to be unknown
# foreign not our mark: never touched
# keep    the evidence is missing or contradicts itself
Verdict = Literal["in_use", "orphan", "young", "foreign", "keep"]
NEVER_DELETED: frozenset[Kind] = frozenset({"network"})


@dataclass(frozen=True, slots=True)
class Finding:
    object: CloudObject
    verdict: Verdict
    reason: str


class CallerRecords(Protocol):
    """Records of the caller's own, as evidence beside what the cloud shows."""

    def complete(self, found: CloudObject) -> CloudObject:
        """The object with facts from the records where the cloud says nothing. It is used for judging only."""

    def correct(self, finding: Finding) -> Finding:
        """The finding, or a milder one: records never turn an object into an orphan."""

    def refusal(self, kind: Kind) -> str | None:
        """Why nothing of this kind is deleted, in words; None where the caller's list is plausible."""

    def unknown_for(self, kind: Kind, unknown: Sequence[CloudObject]) -> Mapping[str, float]:
        """For how many seconds runs have found these unknown without a break, this run included, by CID. All others
        of the kind begin anew when they are found next time."""


class NoRecords:
    """For callers that know nothing but CIDs."""

    def complete(self, found: CloudObject) -> CloudObject:
        return found

    def correct(self, finding: Finding) -> Finding:
        return finding

    def refusal(self, kind: Kind) -> str | None:
        return None

    def unknown_for(self, kind: Kind, unknown: Sequence[CloudObject]) -> Mapping[str, float]:
        return {}


@dataclass(frozen=True, slots=True)
class CleanupArgs:
    dry_run: bool = True
    grace_s: float = 86_400.0
    kinds: tuple[Kind, ...] = DELETION_ORDER
    cap: int = 20  # deletes per kind; more orphans than that are probably a mistake
    cap_percent: float = 25.0  # the same as a share of what is ours there; counts above a few deletes
    left_out: Mapping[str, int] = field(
        default_factory=dict
    )  # living objects that the list lacks, as the caller counts

    @staticmethod
    def of_wire(value: Mapping[str, Any] | None) -> CleanupArgs:
        # An option that is null was not given: it must never switch the dry run off.
        given = {name: option for name, option in (value or {}).items() if option is not None}
        unknown = sorted(given.keys() - set(_OPTIONS))
        if unknown:
            raise InvalidCall(f"cleanup has no option {', '.join(unknown)}", remedy=f"use {', '.join(_OPTIONS)}")
        kinds = tuple(given.get("kinds") or DELETION_ORDER)
        strange = sorted(set(kinds) - set(DELETION_ORDER))
        if strange:
            raise InvalidCall(
                f"cleanup cannot delete {', '.join(strange)}", remedy=f"use some of: {', '.join(DELETION_ORDER)}"
            )
        return CleanupArgs(
            given.get("dry_run", True) is not False,
            float(given.get("grace_s", 86_400.0)),
            tuple(kind for kind in DELETION_ORDER if kind in kinds),
            int(given.get("cap", 20)),
            float(given.get("cap_percent", 25.0)),
            dict(given.get("left_out") or {}),
        )


_OPTIONS = ("dry_run", "grace_s", "kinds", "cap", "cap_percent", "left_out")


def cleanup(
    cpi: Cpi,
    director_uuid: str,
    known: Mapping[str, Collection[str]] | None,
    options: CleanupArgs,
    records: CallerRecords | None = None,
) -> dict[str, Any]:
    """{kind: {"found": [...], "deleted": [...], "failed": [...], "stopped": reason | null, "calls": n}}.

    Without `known` it lists and explains, and deletes nothing.
    """
    own = records or NoRecords()
    return {kind: _clean_kind(cpi, kind, director_uuid, known, options, own) for kind in options.kinds}


Judge = Callable[[CloudObject, Collection[str] | None], Finding]


def _judge_with(director_uuid: str, grace_s: float, records: CallerRecords) -> Judge:
    def judge_one(found: CloudObject, known: Collection[str] | None) -> Finding:
        verdict = judge(records.complete(found), director_uuid, known, now=time.time(), grace_s=grace_s)
        # Delete by what the cloud shows, not by what the records added to it.
        return records.correct(Finding(found, verdict.verdict, verdict.reason))

    return judge_one


def _clean_kind(
    cpi: Cpi,
    kind: Kind,
    director_uuid: str,
    known: Mapping[str, Collection[str]] | None,
    options: CleanupArgs,
    records: CallerRecords,
) -> dict[str, Any]:
    report: dict[str, Any] = {"found": [], "deleted": [], "failed": [], "stopped": None, "calls": 0}
    if "survey" in cpi.capabilities().unsupported:
        report["stopped"] = cpi.capabilities().unsupported["survey"].why
        return report
    # A kind that the caller does not name has no evidence: that does not mean that nothing of it is in use.
    evidence = frozenset(known[kind]) if known is not None and kind in known else None
    judge_one = _judge_with(director_uuid, options.grace_s, records)
    ours, findings = _survey(cpi, kind, director_uuid, lambda found: judge_one(found, evidence), report)
    findings = _spare_copies(kind, findings)
    findings = _spare_new_unknowns(kind, findings, options.grace_s, records) if not report["stopped"] else findings
    report["found"] = [_wire(finding) for finding in findings]
    orphans = [finding for finding in findings if finding.verdict == "orphan"]
    report["stopped"] = report["stopped"] or records.refusal(kind) or _excess(len(orphans), ours, options)
    if report["stopped"] or options.dry_run:
        return report
    for finding in orphans:
        _delete(cpi, finding, report)
    return report


def _excess(count: int, ours: int, options: CleanupArgs) -> str | None:
    """Why so many deletes are probably a mistake."""
    if count > options.cap:
        return f"{count} orphans exceed the cap of {options.cap}; look at them, then raise the cap"
    if count > FEW and 100.0 * count > options.cap_percent * ours:
        return f"{count} of {ours} exceed the cap of {options.cap_percent:g} %; look at them, then raise cap_percent"
    return None


def _spare_copies(kind: Kind, findings: Sequence[Finding]) -> list[Finding]:
    """Of objects with one mark, only the oldest may go, since the others were copied from it. Parts of one object share
    its mark."""
    alike: dict[Mark | None, list[CloudObject]] = defaultdict(list)
    for one in findings:
        if one.verdict in ("orphan", "young") and not any(kind in parts for parts in PARTS_OF.values()):
            alike[one.object.mark].append(one.object)
    originals = {mark: find_original([(one.cid, one.created_at) for one in same]) for mark, same in alike.items()}

    def spare(finding: Finding) -> Finding:
        found = finding.object
        if len(alike.get(found.mark, ())) < 2 or found.cid == originals[found.mark]:
            return finding
        why = f"its mark is that of {originals[found.mark] or 'another one'}: was it copied?"
        return Finding(found, "keep", why)

    return [spare(finding) for finding in findings]


def _spare_new_unknowns(
    kind: Kind, findings: Sequence[Finding], grace_s: float, records: CallerRecords
) -> list[Finding]:
    """One run is no proof: a list may have been incomplete. What an earlier run found, too, may go."""
    unknown = [finding.object for finding in findings if finding.verdict in ("orphan", "young")]
    seconds = records.unknown_for(kind, unknown)

    def spare(finding: Finding) -> Finding:
        since = seconds.get(finding.object.cid, 0.0)
        if finding.verdict != "orphan" or since >= grace_s:
            return finding
        why = f"{finding.reason}; it goes when a run after {grace_s - since:.0f} s finds the same"
        return Finding(finding.object, "young", why)

    return [spare(finding) for finding in findings]


def _survey(
    cpi: Cpi, kind: Kind, director_uuid: str, judge_one: Callable[[CloudObject], Finding], report: dict[str, Any]
) -> tuple[int, Sequence[Finding]]:
    """How many of the objects are ours, and what is to be said about some of them."""
    findings: list[Finding] = []
    ours = 0
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, director_uuid, cursor)
        report["calls"] += page.calls
        if not page.complete:
            report["stopped"] = "the cloud's list is incomplete, so nothing is concluded from it"
            return ours, []
        ours += sum(one.mark is not None and one.mark.director == director_uuid for one in page.objects)
        notable = [one for one in map(judge_one, page.objects) if one.verdict not in ("in_use", "foreign")]
        findings += notable
        cursor = page.next
        if cursor is None:
            return ours, findings


def _delete(cpi: Cpi, finding: Finding, report: dict[str, Any]) -> None:
    found = finding.object
    expected = Expected(found.mark, found.created_at, found.etag)
    try:
        cpi.delete_object(found.kind, found.cid, expected)
    except Changed as changed:
        spared = _wire(Finding(found, "keep", str(changed)))
        report["found"] = [spared if one["cid"] == found.cid else one for one in report["found"]]
    except CpiError as error:
        report["failed"].append({"cid": found.cid, "error": error.facts()})
    else:
        report["deleted"].append(found.cid)


def _wire(finding: Finding) -> dict[str, Any]:
    found = finding.object
    return {"cid": found.cid, "name": found.name, "verdict": finding.verdict, "reason": finding.reason}


def judge(
    found: CloudObject, director_uuid: str, known: Collection[str] | None, *, now: float, grace_s: float
) -> Finding:
    """`known`: CIDs of this kind that the ledger holds; None: there is no ledger."""
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
    opt_out = opt_out_reason(found.tags, now)
    if opt_out:
        return Finding(found, "keep", opt_out)
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
