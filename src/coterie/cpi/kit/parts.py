"""The parts of one cloud as a driver creates and deletes them: recorded before and after each creation, and told apart
from objects that only bear a copied mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from coterie.cpi.contract import CpiError, Kind, Mark, OutcomeUnknown, PartRecords, UnrecordedParts, choose_ours

R = TypeVar("R")


class Parts:
    def __init__(self, records: PartRecords | None = None) -> None:
        self._records: PartRecords = records or UnrecordedParts()

    def create(self, mark: Mark, kind: Kind, name: str, create: Callable[[], R], id_of: Callable[[R], str]) -> R:
        """What `create` answers, recorded as a part. After an error that leaves the outcome open, the intent stays."""
        self._records.intend(mark, kind, name)
        try:
            made = create()
        except OutcomeUnknown:
            raise
        except CpiError:
            self._records.withdraw(mark, kind, name)
            raise
        self._records.record(mark, kind, name, id_of(made))
        return made

    def ours(
        self, mark: Mark, kind: Kind, rows: Sequence[R], id_of: Callable[[R], str], name_of: Callable[[R], str]
    ) -> list[R]:
        """Of rows that bear this mark, the oldest first, those that were created under it. One that was created by a
        call that never ended is recorded now."""
        if not rows:
            return []
        parts = self._records.list_of(mark)
        chosen = choose_ours(parts, kind, [(id_of(row), name_of(row)) for row in rows])
        known = {part.cid for part in parts}
        for row in rows:
            if parts and id_of(row) in chosen and id_of(row) not in known:
                self._records.record(mark, kind, name_of(row), id_of(row))
        return [row for row in rows if id_of(row) in chosen]

    def is_ours(self, mark: Mark, kind: Kind, cid: str, name: str) -> bool:
        """The same of one object; one that is not recorded counts if some call of its name never ended."""
        return bool(choose_ours(self._records.list_of(mark), kind, [(cid, name)]))

    def is_copy(self, mark: Mark, kind: Kind, cid: str) -> bool:
        """Whether others of this kind are recorded under the mark, and none may be this one. The row of the object
        itself, which has no name, does not count."""
        ids = [part.cid for part in self._records.list_of(mark) if part.kind == kind and part.name]
        return bool(ids) and cid not in ids and None not in ids

    def has_any(self, mark: Mark) -> bool:
        return bool(self._records.list_of(mark))

    def is_recorded(self, mark: Mark, kind: Kind, cid: str) -> bool:
        return any((part.kind, part.cid) == (kind, cid) for part in self._records.list_of(mark))

    def record_unfinished(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        """A part that is there, and is used: if the call that created it never recorded it, that is done now, so that
        no copy can be taken for it. Without any record an older release created it."""
        parts = self._records.list_of(mark)
        if parts and not any((part.kind, part.cid) == (kind, cid) for part in parts):
            self._records.record(mark, kind, name, cid)

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        """A part that the cloud itself created with another object."""
        self._records.record(mark, kind, name, cid)
