"""A document that was read: its value, the place of each field, and its mistakes with the one error for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Generic, TypeVar

from coterie.errors import InvalidDocument
from coterie.manifest.schema import Part
from coterie.manifest.tree import Fields, Loc, Node

T = TypeVar("T", bound=Part)


@dataclass(frozen=True, eq=False)
class Loaded(Generic[T]):
    value: T
    file: str
    root: Node

    @cached_property
    def fields(self) -> Fields:
        return Fields(self.root)

    def line(self, path: str | Loc) -> tuple[int, int]:
        """Line and column of `instance_groups[broker].azs`; of a field that is not written, its nearest holder's."""
        return self.root.at(self.fields.loc(path) if isinstance(path, str) else path).place


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """Sorts by file, then place. `field` is empty where the mistake is not inside any field."""

    file: str
    line: int
    column: int
    field: str
    what: str
    remedy: str

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}:{self.column}: {field}{self.what}. {self.remedy}"


def invalid(mistakes: Iterable[Mistake]) -> InvalidDocument:
    """The error for these mistakes; its `why` is one line for each, sorted, so `str()` shows them all."""
    found = sorted(mistakes)
    files = " and ".join(sorted({mistake.file for mistake in found}))
    count = "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
    return InvalidDocument(
        f"{count} in {files}",
        why="\n" + "\n".join(str(mistake) for mistake in found),
        remedy=found[0].remedy if len(found) == 1 else "correct each line named above, then try again",
        details={"mistakes": [asdict(mistake) for mistake in found]},
    )
