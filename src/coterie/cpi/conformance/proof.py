"""What a test proves, and how it is excused: only by a reason with a citation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coterie.cpi.wire import METHODS

F = TypeVar("F", bound=Callable[..., Any])
PROPERTY = "coterie.conformance"  # the user property that carries an Outcome through xdist


def proves(*methods: str) -> Callable[[F], F]:
    """Says which methods of the contract a test proves, if it passes."""
    unknown = [name for name in methods if name not in METHODS]
    if unknown or not methods:
        raise ValueError(f"not methods of the contract: {unknown}")

    def note(test: F) -> F:
        test.proves = methods  # type: ignore[attr-defined] # read back by `proven`
        return test

    return note


def proven(test: Any) -> tuple[str, ...]:
    methods: tuple[str, ...] = getattr(test, "proves", ())
    return methods


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why a test does not apply to a driver."""

    subject: str  # a method, or a part of the test bed
    why: str
    citation: str

    @property
    def holds(self) -> bool:
        return bool(self.why.strip() and self.citation.strip())

    def __str__(self) -> str:
        return f"{self.subject}: {self.why} ({self.citation})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test of the kit on one driver."""

    driver: str
    test: str
    methods: tuple[str, ...]
    result: str  # passed, failed, skipped
    excuse: Excuse | None = None
    refused: tuple[str, ...] = ()  # methods whose declared refusal was seen
    unsupported: dict[str, Excuse] = field(default_factory=dict)
    bed: str = ""  # the test bed, by its parameter or file: what is known of a test before it runs

    def wire(self) -> dict[str, Any]:
        """Plain values only: xdist carries nothing else."""
        return {
            "driver": self.driver,
            "test": self.test,
            "methods": list(self.methods),
            "excuse": _flat(self.excuse),
            "refused": list(self.refused),
            "unsupported": {name: _flat(one) for name, one in self.unsupported.items()},
            "bed": self.bed,
        }

    @staticmethod
    def of_wire(value: dict[str, Any], result: str) -> Outcome:
        return Outcome(
            value["driver"],
            value["test"],
            tuple(value["methods"]),
            result,
            Excuse(*value["excuse"]) if value["excuse"] else None,
            tuple(value["refused"]),
            {name: Excuse(*one) for name, one in value["unsupported"].items()},
            value["bed"],
        )


def _flat(excuse: Excuse | None) -> list[str] | None:
    return [excuse.subject, excuse.why, excuse.citation] if excuse else None
