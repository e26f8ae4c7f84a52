"""The plan of a cleanup: which findings are acted on, in which order, and why the others are not. Pure.

It is bound to the id, creation time and mark of each object, and to the run that found them; its id is its hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from coterie.cleanup.findings import BY_A_WORD
from coterie.cleanup.options import DELETION_ORDER, Options
from coterie.cpi.contract import PARTS_OF, find_original
from coterie.ledger.rows.cleanups import FindingRow, SurveyRow

FEW = 5  # so few deletes of a kind are allowed whatever their share


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """`items`: what would be done, in order. `rest`: every other finding, with the reason why it is left alone."""

    cleanup: int
    director: str
    made_at: float
    expires_at: float
    items: tuple[FindingRow, ...]
    rest: tuple[FindingRow, ...]
    stopped: tuple[SurveyRow, ...]

    @property
    def id(self) -> str:
        return self.id_with([_bound(item) for item in self.items])

    def id_with(self, items: Iterable[Mapping[str, Any]]) -> str:
        """The id that this plan would have with these items, in the form of `wire`."""
        bound = [[item.get(name) for name in _BOUND] for item in items]
        text = json.dumps([self.cleanup, self.director, self.expires_at, bound], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "cleanup": self.cleanup,
            "director": self.director,
            "made_at": self.made_at,
            "expires_at": self.expires_at,
            "items": [_bound(item) for item in self.items],
            "stopped": [{"cloud": one.cloud, "kind": one.kind, "reason": one.reason} for one in self.stopped],
        }


# What the plan is bound to, in the order in which its id is computed; `finding` is the id of the row.
_BOUND = (
    "finding",
    "cloud",
    "kind",
    "cid",
    "name",
    "created_at",
    "etag",
    "intent",
    "action",
    "reason",
    "evidence",
)


def _bound(item: FindingRow) -> dict[str, Any]:
    return {name: item.id if name == "finding" else getattr(item, name) for name in _BOUND}


def make_plan(
    cleanup: int,
    director: str,
    made_at: float,
    options: Options,
    findings: Iterable[FindingRow],
    surveys: Sequence[SurveyRow],
    pinned: frozenset[tuple[str, str, str]] = frozenset(),
) -> CleanupPlan:
    """`made_at`: when the survey ended, by the database's clock. `pinned`: (cloud, kind, cid) that undo has saved."""
    chosen: list[FindingRow] = []
    rest: list[FindingRow] = []
    whole = {(survey.cloud, survey.kind) for survey in surveys if survey.state == "done"}
    rows = list(findings)
    kept = {(row.cloud, row.intent): row for row in rows if row.verdict == "keep" and BY_A_WORD in (row.evidence or ())}
    copies = _find_copies(rows)
    for row in rows:
        half = None if (row.cloud, row.kind) in whole else "the survey of its kind stopped half-way"
        reason = half or copies.get(row.id) or _refusal(row, options, made_at, pinned) or _kept_with(kept, row)
        if reason:
            rest.append(_keep(row, reason))
        else:
            chosen.append(row)
    draft = _Draft(options, surveys)
    draft.add(chosen)
    stopped = tuple(survey for survey in surveys if survey.state == "stopped")
    expires = made_at + options.expires_s
    return CleanupPlan(cleanup, director, made_at, expires, tuple(draft.items), (*rest, *draft.rest), stopped)


class _Draft:
    """Kind after kind, so that what is used only by objects to be deleted can be deleted too."""

    def __init__(self, options: Options, surveys: Sequence[SurveyRow]) -> None:
        self._options = options
        self._ours = {(row.cloud, row.kind): _ours(row) for row in surveys}
        self._to_delete: set[tuple[str, str | None]] = set()
        self.items: list[FindingRow] = []
        self.rest: list[FindingRow] = []

    def add(self, rows: list[FindingRow]) -> None:
        self.items += [row for row in rows if row.action in ("reclaim", "close")]
        by_kind: dict[tuple[str, str], list[FindingRow]] = defaultdict(list)
        for row in rows:
            if row.action == "delete":
                by_kind[row.kind, row.cloud].append(row)
        for kind, cloud in sorted(by_kind, key=lambda key: (DELETION_ORDER.index(key[0]), key[1])):
            self._add_kind(cloud, kind, self._without_newest_images(by_kind[kind, cloud]))

    def _add_kind(self, cloud: str, kind: str, rows: list[FindingRow]) -> None:
        free = [row for row in rows if not self._users(row)]
        self.rest += [_keep(row, f"used by {', '.join(self._users(row))}") for row in rows if self._users(row)]
        too_many = self._cap(cloud, kind, len(free))
        if too_many:
            self.rest += [_keep(row, too_many) for row in free]
            return
        self._to_delete |= {(cloud, row.cid) for row in free}
        self.items += [
            replace(row, action="retire" if begins_undo_window(row, self._options) else "delete") for row in free
        ]

    def _users(self, row: FindingRow) -> list[str]:
        return [user for user in row.used_by or () if (row.cloud, user) not in self._to_delete]

    def _without_newest_images(self, rows: list[FindingRow]) -> list[FindingRow]:
        """The newest unused stemcells of each name stay: the next deployment may need one of them."""
        count: dict[str, int] = defaultdict(int)
        found = []
        for row in sorted(rows, key=_newness, reverse=True):
            name = str(row.ref).rpartition("/")[0]
            if row.kind == "image" and row.ledger_state == "live" and count[name] < self._options.keep_stemcells:
                count[name] += 1
                self.rest.append(_keep(row, f"one of the {self._options.keep_stemcells} newest unused of {name}"))
            else:
                found.append(row)
        return sorted(found, key=lambda row: row.id)

    def _cap(self, cloud: str, kind: str, count: int) -> str | None:
        options, ours = self._options, max(self._ours.get((cloud, kind), 0), 1)
        share = 100.0 * count / ours
        if count <= options.cap and (count <= FEW or share <= options.cap_percent):
            return None
        return (
            f"{count} of {ours} would go, more than the cap of {options.cap} or {options.cap_percent:g} %: "
            "look at them, then raise --cap and --cap-percent"
        )


def _refusal(row: FindingRow, options: Options, now: float, pinned: frozenset[tuple[str, str, str]]) -> str | None:
    if row.action == "none":
        return str(row.reason)
    if (row.cloud, row.kind, row.cid) in pinned:
        return "undo has saved it; delete it by name when it may go"
    out = exclusion(row, options, now)
    if out or row.action != "delete":
        return out
    until = waits_until(row, options, now)
    return f"{row.reason}; it may go after {_day(until)}" if until else None


def _find_copies(rows: Sequence[FindingRow]) -> dict[int, str]:
    """Findings, by id, that are not acted on since another object has their mark, with the reason. Where the ledger has
    the CID, they were told apart by it. Parts of one object share its mark."""
    parts = {kind for kinds in PARTS_OF.values() for kind in kinds}
    alike: dict[tuple[str, str, str | None], list[FindingRow]] = defaultdict(list)
    for row in rows:
        if row.action in ("delete", "reclaim") and row.kind not in parts:
            alike[row.cloud, row.kind, row.intent].append(row)
    found: dict[int, str] = {}
    for same in alike.values():
        original = find_original([(str(row.cid), row.created_at) for row in same])
        others = [row for row in same if row.cid != original] if len(same) > 1 else []
        found |= {row.id: f"its mark is that of {original or 'another one'}: was it copied?" for row in others}
    return found


def _kept_with(kept: Mapping[tuple[str, str | None], FindingRow], row: FindingRow) -> str | None:
    """An object and its parts have one intent: while people keep one of them, the others stay, too."""
    one = kept.get((row.cloud, row.intent)) if row.action == "delete" else None
    return f"{one.kind} {one.cid}, which belongs to it, is kept: {one.reason}" if one else None


def _newness(row: FindingRow) -> tuple[list[tuple[int, str]], str]:
    """By version, number by number; where the versions are the same, by when it was intended."""
    parts = re.split(r"[^A-Za-z0-9]+", str(row.ref).rpartition("/")[2])
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], row.intent or ""


def _keep(row: FindingRow, reason: str) -> FindingRow:
    return replace(row, action="none", reason=reason)


def _ours(survey: SurveyRow) -> int:
    counts = survey.counts or {}
    return sum(count for verdict, count in counts.items() if verdict not in ("foreign", "missing"))


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


_KEPT_FOR_UNDO = ("disk", "snapshot")


def exclusion(row: FindingRow, options: Options, now: float) -> str | None:
    """Why the options leave this finding alone; None when it is meant."""
    for what, value in (("kind", row.kind), ("cloud", row.cloud), ("az", row.az)):
        wanted, unwanted = getattr(options, f"{what}s"), getattr(options, f"not_{what}s")
        if (wanted and value not in wanted) or value in unwanted:
            return f"left out: its {what} is {value}"
    named = _matches(row.name, options.names)
    if (options.names and not named) or _matches(row.name, options.not_names):
        return f"left out: its name is {row.name!r}"
    return _too_young(row, options, now)


def waits_until(row: FindingRow, options: Options, now: float) -> float | None:
    """Until when it has to wait; None when its time has come."""
    ripe = (row.since or now) + _window(row, options)
    return ripe if ripe > now else None


def begins_undo_window(row: FindingRow, options: Options) -> bool:
    """Whether a deletion only begins the undo window."""
    return row.kind == "disk" and options.disks == "keep" and options.undo_s > 0 and not _in_undo_window(row)


def _matches(name: str | None, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name or "", glob) for glob in globs)


def _too_young(row: FindingRow, options: Options, now: float) -> str | None:
    if not options.older_than_s:
        return None
    if row.created_at is None:
        return "left out: the cloud does not say how old it is"
    age = now - row.created_at
    if age < 0:
        return "left out: made in the future, so the cloud's clock and ours differ"
    return f"left out: made {age:.0f} s ago" if age < options.older_than_s else None


def _window(row: FindingRow, options: Options) -> float:
    return options.undo_s if _in_undo_window(row) and row.kind in _KEPT_FOR_UNDO else options.grace_s


def _in_undo_window(row: FindingRow) -> bool:
    return bool(row.doomed) or row.ledger_state == "kept"
