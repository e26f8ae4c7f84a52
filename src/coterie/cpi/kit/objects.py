"""The object table: a driver says, for each kind, how its cloud lists, reads, describes and deletes objects; `find`,
`survey`, `delete_object` and `vm_owner` of the contract follow from that.

    objects = ObjectTable(runtime.director_uuid, {
        "vm": ObjectKind(search=vms.with_mark, page=vms.page, read=vms.read, describe=vms.describe, delete=vms.delete,
                         owner=vms.owner),
        "network": ObjectKind(search=..., page=..., read=..., describe=...),   # no `delete`: listed, never deleted
    }, limit)

A row is what the cloud answers for one object. A driver that describes many rows at once may use `CloudObject` itself
as its row, with `describe=described`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from coterie.cpi.contract import (
    KEEP,
    PARTS_OF,
    Changed,
    CloudObject,
    Expected,
    Kind,
    Mark,
    Marking,
    NotSupported,
    SurveyPage,
    opt_out_reason,
)
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.checks import require_kind, require_same, vm_missing
from coterie.slotted import dataclass, replace

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RowPage(Generic[R]):
    """One page of a listing. `complete` False: the cloud may have left something out, so the page proves no absence."""

    rows: Sequence[R]
    next: str | None = None
    complete: bool = True


def never(row: object) -> bool:
    return False


def described(found: CloudObject, director_uuid: str) -> CloudObject:
    """`describe` of a kind whose rows are described already."""
    return found


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[R]):
    """How objects of one kind are handled.

    `search`: rows that may carry the mark; the table compares marks. `page`: one page of what may be a Director's,
    after a cursor. `read`: the row behind a CID of this Director's, or None.
    `describe`: the row as an object, with the mark that this Director has on it, its users, its creation time, and all
    that people may write on it as `tags`.
    `delete`: by CID and row, after everything was compared; gone meanwhile is fine. None: never deleted.
    `owner`: whose mark is on the row, for VMs. `is_gone`: the row shows something on its way out.
    `marking` and `filtered` are declared in the capabilities.
    """

    search: Callable[[Mark], Iterable[R]]
    page: Callable[[str, str | None], RowPage[R]]
    read: Callable[[str, str], R | None]
    describe: Callable[[R, str], CloudObject]
    delete: Callable[[str, R], None] | None = None
    owner: Callable[[R], str | None] | None = None
    is_gone: Callable[[R], bool] = never
    marking: Marking = "atomic"
    filtered: bool = True


class ObjectTable:
    """`limit`: counts the calls of a survey; without it a page counts as one. `keep`: ids and names of objects that the
    cloud's configuration keeps from deletion, for kinds that people can write nothing on."""

    def __init__(
        self,
        director_uuid: str,
        kinds: Mapping[Kind, ObjectKind[Any]],
        limit: CallLimit | None = None,
        keep: Collection[str] = (),
    ) -> None:
        self._director = director_uuid
        self._kinds = kinds
        self._limit = limit
        self._keep = frozenset(keep)

    @property
    def markings(self) -> dict[str, Marking]:
        """`Capabilities.kinds`."""
        return {kind: calls.marking for kind, calls in self._kinds.items()}

    @property
    def filtered(self) -> frozenset[str]:
        """`Capabilities.filtered`."""
        return frozenset(kind for kind, calls in self._kinds.items() if calls.filtered)

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        """The object with exactly this mark: of several the oldest, since a copy is younger than what was copied. A VM
        may have more than one part of a kind: of parts, the first."""
        calls = self._calls_of(kind)
        if calls is None:
            return None
        listed = (self._describe(calls, row, mark.director) for row in calls.search(mark) if not calls.is_gone(row))
        ours = (one for one in listed if one.mark == mark)
        if any(kind in parts for parts in PARTS_OF.values()):
            return next(ours, None)
        return min(ours, key=lambda one: (one.created_at is None, one.created_at or 0.0), default=None)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        """One page; a kind that this cloud does not know has no objects."""
        calls = self._calls_of(kind)
        if calls is None:
            return SurveyPage((), None, complete=True, calls=0)
        before = self._count()
        page = calls.page(director_uuid, cursor)
        objects = tuple(self._describe(calls, row, director_uuid) for row in page.rows if not calls.is_gone(row))
        return SurveyPage(objects, page.next, page.complete, calls=max(1, self._count() - before))

    def read(self, kind: Kind, cid: str, director_uuid: str | None = None) -> CloudObject | None:
        """What is behind this CID now."""
        calls = self._calls_of(kind)
        if calls is None:
            return None
        owner = director_uuid or self._director
        row = calls.read(cid, owner)
        return None if row is None or calls.is_gone(row) else self._describe(calls, row, owner)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        """Delete it if it is still the expected one, and of this Director: another Director's is never deleted."""
        calls = self._calls_of(kind)
        if calls is None or calls.delete is None:
            raise NotSupported(f"objects of kind {kind} are listed, never deleted", remedy="leave it")
        if expected.mark and expected.mark.director != self._director:
            raise Changed(
                f"{kind} {cid[:80]} is expected to be another Director's",
                remedy="have the Director of that mark delete it",
            )
        row = calls.read(cid, self._director)
        if row is None or calls.is_gone(row):
            return
        found = self._describe(calls, row, self._director)
        require_same(found, expected)
        for one in (found, *self._list_parts(found)):
            kept = opt_out_reason(one.tags, time.time())
            if kept:
                raise Changed(f"{one.kind} {one.cid[:80]} is kept", why=kept, remedy="remove that, then repeat")
        calls.delete(cid, row)

    def vm_owner(self, vm_cid: str) -> str | None:
        """Whose mark this VM carries."""
        calls = self._kinds["vm"]
        row = calls.read(vm_cid, self._director)
        if row is None or calls.is_gone(row):
            raise vm_missing(vm_cid)
        return calls.owner(row) if calls.owner else None

    def _list_parts(self, found: CloudObject) -> Iterator[CloudObject]:
        """What bears the same mark and goes with it."""
        for kind in PARTS_OF.get(found.kind, ()):
            calls = self._kinds.get(kind)
            if calls is None or found.mark is None:
                continue
            listed = (self._describe(calls, row, self._director) for row in calls.search(found.mark))
            yield from (one for one in listed if one.mark == found.mark)

    def _describe(self, calls: ObjectKind[R], row: R, director_uuid: str) -> CloudObject:
        found = calls.describe(row, director_uuid)
        if not self._keep.intersection((found.cid, found.name)):
            return found
        return replace(found, tags={**(found.tags or {}), KEEP: "by the cloud's configuration"})

    def _calls_of(self, kind: Kind) -> ObjectKind[Any] | None:
        require_kind(kind)
        return self._kinds.get(kind)

    def _count(self) -> int:
        return self._limit.calls_of_thread if self._limit else 0
