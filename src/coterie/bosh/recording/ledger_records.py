"""What the local ledger adds to the evidence of a cleanup: objects without a row stay, and rows fill gaps in what the
cloud says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from coterie.bosh.recording.described import is_described
from coterie.cleanup.cpi_method import Finding
from coterie.cpi.contract import CloudObject, Kind, Part, may_be_ours
from coterie.ledger.rows.objects import ObjectRow
from coterie.slotted import dataclass, field, replace

_UNKNOWN = "this ledger has no row of it: was the ledger lost, or restored from an old backup?"
_WITHOUT_USERS = ("vm", "snapshot", "keypair")  # but for their caller


@dataclass(frozen=True, slots=True)
class LeavingMachines:
    """Machines that nothing needs. `gone`: CID → intent of those that this run deleted. `left`: CIDs of those that it
    found and left for a later one. `members`: the names of those that the ledger still has, by the intent of their
    group, for groups that have no others."""

    gone: Mapping[str, str] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def wait_for(self, group: CloudObject) -> list[str]:
        """Those that must go before the group does."""
        recorded = self.members.get(group.mark.intent, ()) if group.mark else ()
        return sorted({*recorded, *self.left.intersection(group.in_use_by or ())})


@dataclass(frozen=True, slots=True)
class LedgerRecords:
    """`under_way`: intents that a living call works on. `needed`: intents of what the ledger says is in use.
    `refusals`: why nothing of a kind is deleted. `count_unknown`: what `unknown_for` answers."""

    rows: Sequence[ObjectRow]
    under_way: Collection[str]
    needed: Collection[str]
    refusals: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)  # by intent
    count_unknown: Callable[[Kind, Sequence[CloudObject]], Mapping[str, float]] = lambda _kind, _unknown: {}
    leaving: LeavingMachines = field(default_factory=LeavingMachines)
    _by_intent: dict[str, ObjectRow] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_intent", {row.intent: row for row in self.rows})

    def complete(self, found: CloudObject) -> CloudObject:
        row = self._row(found)
        if row is None:
            return found
        age = row.created_at if found.created_at is None else found.created_at
        users = self._users(found, row) if found.in_use_by is None else found.in_use_by
        if found.kind == "server_group" and users:
            users = tuple(one for one in users if one not in self.leaving.left and one not in self.leaving.gone)
        return replace(found, created_at=age, in_use_by=users)

    def correct(self, finding: Finding) -> Finding:
        found, row = finding.object, self._row(finding.object)
        if row and self._is_needed(found, row):
            return Finding(found, "in_use", "the ledger knows it")
        if finding.verdict not in ("orphan", "young"):
            return finding
        if row is None:
            return Finding(found, "keep", _UNKNOWN)
        if found.kind != row.kind and not may_be_ours(self.parts.get(row.intent, ()), found.kind, found.cid):
            of = f"{row.kind} {row.cid or row.intent}"
            return Finding(found, "keep", f"it did not come with {of}, whose mark it has: was it copied?")
        if found.kind == row.kind and row.cid not in (None, found.cid):
            return Finding(found, "keep", f"its mark is that of {row.cid}: was it copied?")
        if row.intent in self.under_way:
            return Finding(found, "keep", "a call is working on it now")
        if row.is_undelivered and row.state == "live" and found.tags is None:
            return Finding(
                found, "keep", "its caller may have received it: the cloud does not show what is written on it"
            )
        if row.is_undelivered and row.state == "live" and is_described(found):
            return Finding(found, "in_use", "its caller has written metadata on it")
        machines = self.leaving.wait_for(found) if found.kind == "server_group" else []
        if machines:
            return Finding(found, "young", f"it goes with the last of {', '.join(machines)}")
        return Finding(found, "orphan", _why(found, row)) if finding.verdict == "orphan" else finding

    def refusal(self, kind: Kind) -> str | None:
        return self.refusals.get(kind)

    def unknown_for(self, kind: Kind, unknown: Sequence[CloudObject]) -> Mapping[str, float]:
        return self.count_unknown(kind, unknown)

    def _row(self, found: CloudObject) -> ObjectRow | None:
        return self._by_intent.get(found.mark.intent) if found.mark else None

    def _is_needed(self, found: CloudObject, row: ObjectRow) -> bool:
        if found.kind == row.kind:
            return row.intent in self.needed and row.cid == found.cid
        # What was made along with a machine or a group, and serves it.
        return row.intent in self.needed and bool(found.in_use_by)

    def _users(self, found: CloudObject, row: ObjectRow) -> tuple[str, ...] | None:
        if found.kind != row.kind:
            return (row.cid or row.intent,) if row.may_exist else ()
        if found.kind in _WITHOUT_USERS:
            return ()
        if found.kind != "image":
            return None  # a disk may be attached and a group may have members that are not in this ledger
        machines = (one for one in self.rows if one.kind == "vm" and one.may_exist)
        return tuple(one.cid or one.intent for one in machines if (one.properties or {}).get("stemcell") == found.cid)


def _why(found: CloudObject, row: ObjectRow) -> str:
    """By what the ledger says; that it is marked as ours and unused in the cloud is proven by now."""
    if found.kind != row.kind:
        return f"it was made along with {row.kind} {row.cid or row.intent}, which nothing needs"
    if row.kind == "server_group" and "compilation-" in (row.ref or ""):
        return "a compilation machine left this group behind, and nothing is in it"
    if row.kind == "server_group" and row.state == "live":
        return f"no machine of {row.ref or 'this group'} is left"
    return {
        "gone": "it appeared after its creation had been given up",
        "deleting": "its deletion was begun and never finished",
        "live": "no caller ever received it" if row.is_undelivered else "the caller does not know it",
        "kept": "the caller does not know it",
    }.get(row.state, "its creation was never finished, and no call waits for it")
