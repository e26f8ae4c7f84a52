"""The method `cleanup` with our own ledger as witness: what is under way is spared, what was lost is found again.

The caller's list of what it knows counts per kind; without one, the ledger's own living rows do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cleanup import sweep
from coterie.cleanup.sweep import Options, Spare
from coterie.cpi.contract import CloudObject, Json, Kind
from coterie.cpi_program import leftovers
from coterie.cpi_program.desk import Desk
from coterie.ledger import bosh_groups, claims, intents
from coterie.ledger.intents import Intent

# Objects that a BOSH Director holds by cid; of any other kind it never hears, so only our ledger can know them.
_TOLD = ("vm", "disk", "snapshot", "image")
_LIVING = ("live", "kept")


def cleanup(desk: Desk, director_uuid: str, known: Mapping[str, list[str]] | None, options: Json) -> Json:
    """The report of `cleanup.sweep`, and the ledger brought in line with what it did."""
    wanted = Options.of_wire(options)
    with desk.book.ledger.read() as tx:
        rows = intents.of_caller(tx, desk.cloud, director_uuid)
        busy, building = claims.living(tx), bosh_groups.busy(tx, desk.cloud, director_uuid)
    under_way = {row.intent for row in rows if desk.claim_of(row.kind, row.intent, row.ref) in busy} | building
    if not wanted.dry_run:
        leftovers.forget_missing(desk, director_uuid)
    closing = leftovers.closable_groups(desk, director_uuid, dry_run=wanted.dry_run)
    evidence = _evidence(wanted.kinds, rows, known, {group.intent for group in closing})
    spare = _spare({row.intent: row for row in rows}, under_way, ledger_only=known is None)
    report = sweep.cleanup(desk.driver, director_uuid, evidence, wanted, spare)
    if not wanted.dry_run:
        _note(desk, rows, report)
        leftovers.settle(desk, [row for row in rows if row.intent not in under_way])
    leftovers.reopen_groups(desk, closing)
    return _explained(report, known)


def _evidence(
    kinds: Iterable[Kind], rows: Iterable[Intent], known: Mapping[str, list[str]] | None, closing: set[str]
) -> dict[str, frozenset[str]]:
    """CIDs that are in use, for every wanted kind: a ledger that holds none of a kind says so too."""
    found: dict[str, set[str]] = {kind: set((known or {}).get(kind, ())) for kind in kinds}
    for row in rows:
        decided = known is not None and row.kind in known
        if row.cid and row.state in _LIVING and row.intent not in closing and not decided and row.kind in found:
            found[row.kind].add(row.cid)
    return {kind: frozenset(cids) for kind, cids in found.items()}


def _spare(rows: Mapping[str, Intent], under_way: set[str], *, ledger_only: bool) -> Spare:
    def reason(found: CloudObject) -> str | None:
        intent = found.mark.intent if found.mark else ""
        if intent in under_way:
            return "a call is working on it now"
        if ledger_only and intent not in rows:
            return "this ledger never heard of it; name what the BOSH Director knows to decide"
        return None

    return reason


def _note(desk: Desk, rows: Iterable[Intent], report: Json) -> None:
    deleted = {(kind, cid) for kind, told in report.items() for cid in told["deleted"]}
    with desk.book.ledger.write() as tx:
        for row in rows:
            cid = row.cid or (desk.mark(row.intent).group_cid if row.kind == "server_group" else None)
            if row.state != "gone" and (row.kind, cid) in deleted:
                intents.gone(tx, row.intent)


def _explained(report: Json, known: Mapping[str, Any] | None) -> Json:
    for kind, told in report.items():
        if kind in _TOLD and known is not None and kind not in known:
            told["notes"] = [f"the caller named no {kind}, so the local ledger decided what is in use"]
    return report
