"""A document that was read: its value, and where each field of it is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

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
