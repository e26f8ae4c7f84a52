"""The method `cleanup` with our own ledger as witness: what is under way is spared, what was lost is found again.

The caller's list of what it knows counts per kind; without one, the ledger's own living rows do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.bosh.core.call_context import Desk
from coterie.bosh.recording import leftovers
from coterie.bosh.recording.witness import LedgerWitness
from coterie.cleanup import sweep
from coterie.cleanup.sweep import Options
from coterie.cpi.contract import CpiError, InvalidCall, Json, Kind
from coterie.ledger.rows import bosh_groups, objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.work import leases
from coterie.ledger.writes import execute

# Objects that a BOSH Director holds by cid; of any other kind it never hears, so only our ledger can know them.
_TOLD = ("vm", "disk", "snapshot", "image")
_LIVING = ("live", "kept")


def cleanup(desk: Desk, director_uuid: str, known: Mapping[str, list[str]] | None, options: Json) -> Json:
    """The report of `cleanup.sweep`, and the ledger brought in line with what it did."""
    wanted = Options.of_wire(options)
    _require_same(desk, director_uuid)
    try:
        rows, under_way = _recorded(desk)
    except CpiError as error:
        return _only_listed(desk, wanted, error)
    if not wanted.dry_run:
        leftovers.forget_missing(desk)
    closing = leftovers.closable_groups(desk, dry_run=wanted.dry_run)
    needed = _needed(rows, known or {}, {group.intent for group in closing})
    witness = LedgerWitness(rows, under_way, {row.intent for row in needed})
    try:
        evidence = _evidence(wanted.kinds, needed, known or {})
        report = sweep.cleanup(desk.driver, desk.director, evidence, wanted, witness)
        if not wanted.dry_run:
            _note(desk, rows, report)
            leftovers.settle(desk, [row for row in rows if row.intent not in under_way])
    finally:
        leftovers.reopen_groups(desk, closing)
    return _explained(report, known)


def _require_same(desk: Desk, director_uuid: str) -> None:
    """Driver and marks are those of the caller in the context: judged by them, another's objects would seem lost."""
    if director_uuid != desk.director:
        raise InvalidCall(
            f"cleanup for Director {director_uuid} was asked in the name of Director {desk.director}",
            remedy="send the same uuid as argument and as context.director_uuid",
        )


def _recorded(desk: Desk) -> tuple[list[ObjectRow], set[str]]:
    """All that the ledger has of this caller, and the intents that a living call works on."""
    with desk.book.existing().read() as tx:
        rows = objects.of_caller(tx, desk.cloud, desk.director)
        busy, building = leases.living(tx), bosh_groups.busy(tx, desk.cloud, desk.director)
    return rows, {row.intent for row in rows if desk.claim_of(row.kind, row.intent, row.ref) in busy} | building


def _only_listed(desk: Desk, wanted: Options, error: CpiError) -> Json:
    """Without a ledger there is no proof that anything is unused, whatever the caller knows."""
    report = sweep.cleanup(desk.driver, desk.director, None, wanted)
    for told in report.values():
        if told["found"] and not told["stopped"]:
            told["stopped"] = f"{error.what}: {error.why}; {error.remedy}"
    return report


def _needed(rows: Iterable[ObjectRow], known: Mapping[str, list[str]], closing: set[str]) -> list[ObjectRow]:
    """Rows of what is in use: the caller decides the kinds that it names, the ledger all others."""
    return [
        row
        for row in rows
        if row.state in _LIVING and row.intent not in closing and (row.kind not in known or row.cid in known[row.kind])
    ]


def _evidence(
    kinds: Iterable[Kind], needed: Iterable[ObjectRow], known: Mapping[str, list[str]]
) -> dict[str, frozenset[str]]:
    """CIDs that are in use, for every wanted kind: a ledger that holds none of a kind says so too."""
    found: dict[str, set[str]] = {kind: set(known.get(kind, ())) for kind in kinds}
    for row in needed:
        if row.cid and row.kind in found:
            found[row.kind].add(row.cid)
    return {kind: frozenset(cids) for kind, cids in found.items()}


def _note(desk: Desk, rows: Iterable[ObjectRow], report: Json) -> None:
    deleted = {(kind, cid) for kind, told in report.items() for cid in told["deleted"]}
    with desk.book.ledger.write() as tx:
        for row in rows:
            cid = row.cid or (desk.mark(row.intent).group_cid if row.kind == "server_group" else None)
            if row.state != "gone" and (row.kind, cid) in deleted:
                execute(tx, objects.record_gone(row.intent))


def _explained(report: Json, known: Mapping[str, Any] | None) -> Json:
    for kind, told in report.items():
        if kind in _TOLD and known is not None and kind not in known:
            told["notes"] = [f"the caller named no {kind}, so the local ledger decided what is in use"]
    return report
