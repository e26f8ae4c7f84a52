"""The CPI method `cleanup`, for callers without our Director: survey, findings, and deletes where they are proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cleanup.known import Finding, judge
from coterie.cleanup.witness import NoWitness, Witness
from coterie.cpi.contract import CloudObject, Cpi, CpiError, Expected, InvalidCall, Kind

# What stands on something else goes first.
ORDER: tuple[Kind, ...] = (
    "vm",
    "port",
    "ip",
    "snapshot",
    "disk",
    "server_group",
    "security_group",
    "keypair",
    "image",
    "folder",
)


@dataclass(frozen=True, slots=True)
class Options:
    dry_run: bool = True
    grace_s: float = 86_400.0
    kinds: tuple[Kind, ...] = ORDER
    cap: int = 20  # deletes per kind; more orphans than that look like a mistake of ours

    @staticmethod
    def of_wire(value: Mapping[str, Any] | None) -> Options:
        # An option that is null was not given: it must never switch the dry run off.
        given = {name: option for name, option in (value or {}).items() if option is not None}
        unknown = sorted(given.keys() - {"dry_run", "grace_s", "kinds", "cap"})
        if unknown:
            raise InvalidCall(f"cleanup has no option {', '.join(unknown)}", remedy="use dry_run, grace_s, kinds, cap")
        kinds = tuple(given.get("kinds") or ORDER)
        strange = sorted(set(kinds) - set(ORDER))
        if strange:
            raise InvalidCall(f"cleanup cannot delete {', '.join(strange)}", remedy=f"use some of: {', '.join(ORDER)}")
        return Options(
            given.get("dry_run", True) is not False,
            float(given.get("grace_s", 86_400.0)),
            tuple(kind for kind in ORDER if kind in kinds),
            int(given.get("cap", 20)),
        )


def cleanup(
    cpi: Cpi,
    director_uuid: str,
    known: Mapping[str, Collection[str]] | None,
    options: Options,
    witness: Witness | None = None,
) -> dict[str, Any]:
    """{kind: {"found": [...], "deleted": [...], "failed": [...], "stopped": reason | null, "calls": n}}.

    Without `known` it lists and explains, and deletes nothing.
    """
    weigh = _scales(director_uuid, options.grace_s, witness or NoWitness())
    return {kind: _kind(cpi, kind, director_uuid, known, options, weigh) for kind in options.kinds}


Weigh = Callable[[CloudObject, Collection[str] | None], Finding]


def _scales(director_uuid: str, grace_s: float, witness: Witness) -> Weigh:
    def weigh(found: CloudObject, known: Collection[str] | None) -> Finding:
        verdict = judge(witness.completed(found), director_uuid, known, now=time.time(), grace_s=grace_s)
        # What is deleted must be what the cloud shows, not what others added to it.
        return witness.overruled(Finding(found, verdict.verdict, verdict.reason))

    return weigh


def _kind(
    cpi: Cpi,
    kind: Kind,
    director_uuid: str,
    known: Mapping[str, Collection[str]] | None,
    options: Options,
    weigh: Weigh,
) -> dict[str, Any]:
    report: dict[str, Any] = {"found": [], "deleted": [], "failed": [], "stopped": None, "calls": 0}
    if "survey" in cpi.capabilities().unsupported:
        report["stopped"] = cpi.capabilities().unsupported["survey"].why
        return report
    # A kind that the caller says nothing about is a kind without evidence, not one of which nothing is in use.
    evidence = frozenset(known[kind]) if known is not None and kind in known else None
    findings = _survey(cpi, kind, director_uuid, lambda found: weigh(found, evidence), report)
    orphans = [finding for finding in findings if finding.verdict == "orphan"]
    if len(orphans) > options.cap:
        report["stopped"] = f"{len(orphans)} orphans exceed the cap of {options.cap}; look at them, then raise the cap"
    if report["stopped"] or options.dry_run:
        return report
    for finding in orphans:
        _delete(cpi, finding, report)
    return report


def _survey(
    cpi: Cpi, kind: Kind, director_uuid: str, weigh: Callable[[CloudObject], Finding], report: dict[str, Any]
) -> Sequence[Finding]:
    findings: list[Finding] = []
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, director_uuid, cursor)
        report["calls"] += page.calls
        if not page.complete:
            report["stopped"] = "the cloud's list is incomplete, so nothing is concluded from it"
            return []
        notable = [one for one in map(weigh, page.objects) if one.verdict not in ("in_use", "foreign")]
        findings += notable
        report["found"] += map(_told, notable)
        cursor = page.next
        if cursor is None:
            return findings


def _delete(cpi: Cpi, finding: Finding, report: dict[str, Any]) -> None:
    found = finding.object
    expected = Expected(found.mark, found.created_at, found.etag)
    try:
        cpi.delete_object(found.kind, found.cid, expected)
    except CpiError as error:
        report["failed"].append({"cid": found.cid, "error": error.facts()})
    else:
        report["deleted"].append(found.cid)


def _told(finding: Finding) -> dict[str, Any]:
    found = finding.object
    return {"cid": found.cid, "name": found.name, "verdict": finding.verdict, "reason": finding.reason}
