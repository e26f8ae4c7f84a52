"""The method `cleanup` with the local ledger as evidence: what is under way stays, what was lost is found again.

The caller's list of what it knows counts per kind; without one, the ledger's own living rows do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from coterie.bosh.core.call_context import CallContext
from coterie.bosh.recording.described import DESCRIBED
from coterie.bosh.recording.ledger_records import LeavingMachines, LedgerRecords
from coterie.bosh.recording.marks import director_id
from coterie.cleanup import cpi_method
from coterie.cleanup.clock import note_clock
from coterie.cleanup.cpi_method import CleanupArgs
from coterie.cleanup.options import DELETION_ORDER
from coterie.cpi.contract import CloudObject, CpiError, InvalidCall, Json, Kind, Part
from coterie.ledger import store
from coterie.ledger.rows import bosh_groups, deletion_candidates, objects, parts
from coterie.ledger.rows.bosh_groups import BoshGroup
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.work import leases
from coterie.ledger.writes import execute
from coterie.slotted import replace

# Objects that a BOSH Director holds by cid; only our ledger has those of other kinds.
_KNOWN_TO_BOSH = ("vm", "disk", "snapshot", "image")
_LIVING = ("live", "kept")


def cleanup(context: CallContext, director_uuid: str, known: Mapping[str, list[str]] | None, options: Json) -> Json:
    """The report of `cpi_method.cleanup`; what was deleted is recorded in the ledger.

    Server groups and all kinds after them are judged by what is left when machines have gone, so a group goes with the
    last of its machines.
    """
    wanted = CleanupArgs.of_wire(options)
    _require_same_director(context, director_uuid)
    try:
        rows = _read_rows(context)
    except CpiError as error:
        return _list_only(context, wanted, error)
    note_clock(context.full_ledger)
    if not wanted.dry_run:
        _forget_missing_groups(context)
    refusals = _implausible(rows, known or {}, wanted)
    plausible = {kind: cids for kind, cids in (known or {}).items() if kind not in refusals}
    before = _Part(context, wanted, _BEFORE_GROUPS, plausible, refusals)
    report = before.clean(LeavingMachines())
    after = _Part(context, wanted, _FROM_GROUPS, plausible, refusals)
    leaving = _leaving_machines(context, after, before.unknown, report.get("vm"), dry_run=wanted.dry_run)
    closing = _close_empty_groups(context, leaving, dry_run=wanted.dry_run)
    try:
        report |= after.clean(leaving, {group.intent for group in closing})
    finally:
        _reopen_groups(context, closing)
    return _add_notes(report, known)


_BEFORE_GROUPS = DELETION_ORDER[: DELETION_ORDER.index("server_group")]
_FROM_GROUPS = DELETION_ORDER[len(_BEFORE_GROUPS) :]


class _Part:
    """Some kinds, judged by the ledger as it is when this is made. `known`: the caller's lists that are plausible."""

    def __init__(
        self,
        context: CallContext,
        wanted: CleanupArgs,
        kinds: Collection[Kind],
        known: Mapping[str, list[str]],
        refusals: Mapping[str, str],
    ) -> None:
        self._context = context
        self._kinds = kinds
        self._wanted = replace(wanted, kinds=tuple(kind for kind in wanted.kinds if kind in kinds))
        self._known = known
        self._refusals = refusals
        self._rows = _read_rows(context)
        self._under_way, self._beside = _read_work(context, self._rows)
        self.unknown: dict[str, dict[str, str]] = {}  # what this run finds unknown: kind → CID → intent

    def clean(self, leaving: LeavingMachines, closing: Collection[str] = ()) -> Json:
        """The report of these kinds. `closing`: intents of groups that no machine can join any more."""
        needed = _needed(self._rows, self._known, {*closing, *leaving.members})
        records = LedgerRecords(
            self._rows,
            self._under_way,
            {row.intent for row in needed},
            self._refusals,
            self._beside,
            self._count_unknown,
            leaving,
        )
        evidence = _evidence(self._wanted.kinds, needed, self._known)
        report = cpi_method.cleanup(self._context.driver, self._context.director, evidence, self._wanted, records)
        if not self._wanted.dry_run:
            settled = self._under_way | self._record_deleted(report)
            rows = [row for row in self._rows if row.kind in self._kinds and row.intent not in settled]
            _settle_unknown(self._context, rows)
        return report

    def unneeded_machines(self) -> list[ObjectRow]:
        """Those that may be in the cloud, although nothing needs them and no call works on them."""
        needed = {row.intent for row in _needed(self._rows, self._known, set())} | self._under_way
        return [row for row in self._rows if row.kind == "vm" and row.may_exist and row.intent not in needed]

    def _count_unknown(self, kind: Kind, unknown: Sequence[CloudObject]) -> dict[str, float]:
        """Since when each has been unknown is noted in the ledger, by the ledger's clock."""
        cloud, ours = self._context.cloud, {row.intent for row in self._rows}
        marks = {one.cid: (one.mark.intent, one.created_at) for one in unknown if one.mark}
        self.unknown[kind] = {cid: intent for cid, (intent, _) in marks.items()}
        with self._context.full_ledger.write() as tx:
            now = store.time(tx)
            before = [one for one in deletion_candidates.list_of_kind(tx, cloud, kind) if one.intent in ours]
            same = {one.cid: now - one.since for one in before if marks.get(one.cid) == (one.intent, one.created_at)}
            for cid in {one.cid for one in before} - same.keys():
                execute(tx, deletion_candidates.remove(cloud, kind, cid))
            for cid in marks.keys() - same.keys():
                intent, created_at = marks[cid]
                execute(tx, deletion_candidates.add(cloud, kind, cid, intent=intent, created_at=created_at, cleanup=0))
        return same

    def _record_deleted(self, report: Json) -> set[str]:
        """Intents of the rows that end with it, also of what a killed call had made and not recorded."""
        deleted = {(kind, self.unknown[kind][cid]) for kind, part in report.items() for cid in part["deleted"]}
        ended = {row.intent for row in self._rows if (row.kind, row.intent) in deleted}
        with self._context.full_ledger.write() as tx:
            execute(tx, *[objects.record_gone(row.intent) for row in self._rows if row.intent in ended])
        return ended


def _leaving_machines(
    context: CallContext,
    after: _Part,
    unknown: Mapping[str, Mapping[str, str]],
    machines: Json | None,
    *,
    dry_run: bool,
) -> LeavingMachines:
    """What this run has done to machines; of a dry run, what it would have done. `machines`: the report about them."""
    found = unknown.get("vm", {})
    gone = {cid: found[cid] for cid in (_gone_machines(machines, dry_run=dry_run) if machines else ())}
    left = {row.intent: row.cid or row.intent for row in after.unneeded_machines()}
    members = {}
    with context.full_ledger.read() as tx:
        for group in bosh_groups.of_caller(tx, context.cloud, context.director):
            present = objects.members(tx, group.cid or "") - set(gone.values())
            if present and present <= left.keys():
                members[group.intent] = tuple(left[intent] for intent in sorted(present))
    return LeavingMachines(gone, frozenset(found.keys() - gone.keys()), members)


def _gone_machines(part: Json, *, dry_run: bool) -> set[str]:
    if not dry_run:
        return set(part["deleted"])
    return set() if part["stopped"] else {one["cid"] for one in part["found"] if one["verdict"] == "orphan"}


def _require_same_director(context: CallContext, director_uuid: str) -> None:
    """Driver and marks are those of the caller in the context: by them, objects of another one would look unused."""
    if director_id(director_uuid) != context.director:
        raise InvalidCall(
            f"cleanup for Director {director_uuid} came in the name of Director {context.director}",
            remedy="send the same uuid as argument and as context.director_uuid",
        )


def _read_rows(context: CallContext) -> list[ObjectRow]:
    with context.local_ledger.open_existing().read() as tx:
        return objects.of_caller(tx, context.cloud, context.director)


def _read_work(context: CallContext, rows: Iterable[ObjectRow]) -> tuple[set[str], dict[str, list[Part]]]:
    """The intents that a running call works on, and what was created beside each."""
    with context.full_ledger.read() as tx:
        busy, building = leases.list_held(tx), bosh_groups.busy(tx, context.cloud, context.director)
        beside = parts.list_of_cloud(tx, context.cloud)
    claimed = {row.intent for row in rows if context.claim_key(row.kind, row.intent, row.ref) in busy}
    return claimed | building, beside


def _list_only(context: CallContext, wanted: CleanupArgs, error: CpiError) -> Json:
    """Without a ledger there is no proof that anything is unused, whatever the caller knows."""
    report = cpi_method.cleanup(context.driver, context.director, None, wanted)
    for part in report.values():
        if part["found"] and not part["stopped"]:
            part["stopped"] = f"{error.what}: {error.why}; {error.remedy}"
    return report


def _implausible(rows: Iterable[ObjectRow], known: Mapping[str, list[str]], wanted: CleanupArgs) -> dict[str, str]:
    """Why the list of a kind is not believed. Deletions of a Director go through the ledger, so the list of a healthy
    one lacks next to nothing of what the ledger has as living; one that comes from a command that failed lacks all."""
    refusals = {}
    living = [row for row in rows if row.state in _LIVING and row.cid]
    for kind, cids in known.items():
        present = [row.cid for row in living if row.kind == kind]
        lacking = len(set(present) - set(cids))
        few = cids and (lacking <= 1 or 100.0 * lacking <= wanted.cap_percent * len(present))
        if lacking and not few and wanted.left_out.get(kind) != lacking:
            refusals[kind] = (
                f"the list lacks {lacking} of the {len(present)} that the ledger has as living, so it is not believed; "
                f'check it, and if it is right, add --left-out {kind}={lacking} (left_out: {{"{kind}": {lacking}}})'
            )
    return refusals


def _needed(rows: Iterable[ObjectRow], known: Mapping[str, list[str]], closing: set[str]) -> list[ObjectRow]:
    """Rows of what is in use: by the caller's list for the kinds that it names, by the ledger for the others."""

    def is_known(row: ObjectRow) -> bool:
        if row.kind in known:
            return row.cid in known[row.kind]
        return not (row.is_undelivered and row.kind in DESCRIBED)

    return [row for row in rows if row.state in _LIVING and row.intent not in closing and is_known(row)]


def _evidence(
    kinds: Iterable[Kind], needed: Iterable[ObjectRow], known: Mapping[str, list[str]]
) -> dict[str, frozenset[str]]:
    """CIDs that are in use, for every wanted kind, also for one of which the ledger holds none."""
    found: dict[str, set[str]] = {kind: set(known.get(kind, ())) for kind in kinds}
    for row in needed:
        if row.cid and row.kind in found:
            found[row.kind].add(row.cid)
    return {kind: frozenset(cids) for kind, cids in found.items()}


def _add_notes(report: Json, known: Mapping[str, Any] | None) -> Json:
    for kind, part in report.items():
        if kind in _KNOWN_TO_BOSH and known is not None and kind not in known:
            part["notes"] = [f"the caller named no {kind}, so the local ledger decided what is in use"]
    return report


_DOUBTFUL = ("intended", "unknown", "deleting")


def _close_empty_groups(context: CallContext, leaving: LeavingMachines, *, dry_run: bool) -> list[BoshGroup]:
    """Groups without a member in the ledger. Unless it is a dry run, no machine can join them from now on."""
    with context.full_ledger.read() as tx:
        busy = bosh_groups.busy(tx, context.cloud, context.director)
        rows = [row for row in bosh_groups.of_caller(tx, context.cloud, context.director) if row.intent not in busy]
        empty = [row for row in rows if not objects.members(tx, row.cid or "") - set(leaving.gone.values())]
    return empty if dry_run else [row for row in empty if _close(context, row)]


def _close(context: CallContext, row: BoshGroup) -> bool:
    with context.full_ledger.write() as tx:
        if not bosh_groups.begin_delete(tx, row.key, context.holder, context.lease_s):
            return False
        # Count again now that the row is ours: a machine may have been recorded since the first look.
        if objects.members(tx, row.cid or ""):
            bosh_groups.restore(tx, row.key, context.holder)
            return False
        return True


def _reopen_groups(context: CallContext, closing: Iterable[BoshGroup]) -> None:
    """Forget those that were deleted; the others may be joined again."""
    for row in closing:
        with context.full_ledger.write() as tx:
            kept = objects.by_cid(tx, "server_group", row.cloud, row.director, row.cid or "")
            if kept is None:
                bosh_groups.forget(tx, row.key, context.holder)
            else:
                bosh_groups.restore(tx, row.key, context.holder)


def _forget_missing_groups(context: CallContext) -> None:
    """Forget groups that others deleted in the cloud, so that the next machine gets a new one."""
    with context.full_ledger.read() as tx:
        rows = [
            row for row in bosh_groups.of_caller(tx, context.cloud, context.director) if row.state == "live" and row.cid
        ]
    for row in rows:
        if context.driver.inspect_server_group(row.cid or "").state != "missing":
            continue
        with context.full_ledger.write() as tx:
            if bosh_groups.begin_delete(tx, row.key, context.holder, context.lease_s):
                bosh_groups.forget(tx, row.key, context.holder)
                execute(tx, objects.record_gone(row.intent))


def _settle_unknown(context: CallContext, rows: Iterable[ObjectRow]) -> None:
    """Look for every object whose outcome is unknown; one that is not there after the settle time is gone."""
    capabilities = context.driver.capabilities()
    doubtful = [row for row in rows if row.state in _DOUBTFUL]
    for row in doubtful if capabilities.finds else ():
        try:
            found = context.driver.find(row.kind, context.mark(row.intent))
        except CpiError:
            continue  # it stays unknown until the cloud answers
        with context.full_ledger.write() as tx:
            if found is None and _has_settled(store.time(tx), row, capabilities.settle_s):
                execute(tx, objects.record_gone(row.intent, tombstone=True))
            elif found is None:
                execute(tx, objects.record_unknown(row.intent, row.doubt_since))


def _has_settled(now: float, row: ObjectRow, settle_s: float) -> bool:
    if row.state == "deleting":
        return True  # it was there and is not any more: it cannot appear later
    return row.doubt_since is not None and now - row.doubt_since >= settle_s
