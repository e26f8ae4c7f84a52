"""What one method is: its arguments and result, and how they differ between versions of the wire."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from coterie.cpi.contract import CpiError, Kind
from coterie.cpi.wire.shapes import Shape
from coterie.slotted import dataclass

T = TypeVar("T")
HIGHEST = 3


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    shape: Shape[Any]
    since: int = 1  # the first api_version that has it
    optional_until: int = 0  # callers up to this api_version may leave it out


@dataclass(frozen=True, slots=True)
class Method(Generic[T]):
    name: str
    arguments: tuple[Argument, ...]
    result: Shape[T]
    result_v1: Shape[T] | None = None
    changes: bool = False  # a lost answer leaves the outcome unknown
    marks: Kind | None = None  # the kind of object that it creates under a mark
    since: int = 1
    gone: type[CpiError] | None = None  # means done: the callers know no such error
    of_cpi: bool = True  # False: answered by another room than the driver

    def arity(self, version: int) -> tuple[int, int]:
        """The fewest and the most arguments that a caller of this version may send."""
        spoken = self.spoken(version)
        return sum(version > one.optional_until for one in spoken), len(spoken)

    def spoken(self, version: int) -> tuple[Argument, ...]:
        return tuple(one for one in self.arguments if one.since <= version)

    def answers(self, version: int) -> Shape[T]:
        return self.result_v1 if version == 1 and self.result_v1 else self.result
