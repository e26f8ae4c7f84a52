"""The verdict over all drivers of a run: a table method × driver, and everything that makes the run a failure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from coterie.cpi.conformance.proof import Excuse, Outcome
from coterie.cpi.wire import METHODS

CONTRACT = tuple(name for name, method in METHODS.items() if method.of_cpi)


@dataclass(frozen=True, slots=True)
class Cell:
    state: str  # ok, FAILED, n/a
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    cells: dict[tuple[str, str], Cell]  # (method, driver)
    drivers: tuple[str, ...]
    complaints: tuple[str, ...]


def judge(outcomes: Sequence[Outcome], parts: Collection[str] = ()) -> Verdict:
    """`parts`: drivers of which only some tests were chosen; what these leave unproven is no complaint."""
    drivers = tuple(sorted({one.driver for one in outcomes}))
    cells = {(name, driver): _cell(name, _of(outcomes, driver)) for driver in drivers for name in CONTRACT}
    complaints = [*_bad_skips(outcomes), *_gaps(cells, parts)]
    return Verdict(cells, drivers, tuple(complaints))


def table(verdict: Verdict) -> list[str]:
    """The table as lines, its notes below."""
    notes = list(dict.fromkeys(cell.note for cell in verdict.cells.values() if cell.note))
    rows = [["method", *verdict.drivers]]
    for name in CONTRACT:
        rows.append([name, *(_shown(verdict.cells[name, driver], notes) for driver in verdict.drivers)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *(f"[{number}] {note}" for number, note in enumerate(notes, 1))]


def _of(outcomes: Sequence[Outcome], driver: str) -> list[Outcome]:
    return [one for one in outcomes if one.driver == driver]


def _cell(name: str, outcomes: list[Outcome]) -> Cell:
    about = [one for one in outcomes if name in one.methods]
    if any(one.result == "failed" for one in about):
        return Cell("FAILED")
    declared = _declared(name, outcomes)
    if declared:
        return _refused(name, declared, outcomes)
    return Cell("ok") if any(one.result == "passed" for one in about) else Cell("FAILED", "no test of it passed")


def _declared(name: str, outcomes: list[Outcome]) -> Excuse | None:
    return next((one.unsupported[name] for one in outcomes if name in one.unsupported), None)


def _refused(name: str, declared: Excuse, outcomes: list[Outcome]) -> Cell:
    if not declared.holds:
        return Cell("FAILED", "declared unsupported without a reason and a citation")
    if not any(name in one.refused for one in outcomes):
        return Cell("FAILED", "declared unsupported, but not seen to refuse")
    return Cell("n/a", f"{declared.why} ({declared.citation})")


def _bad_skips(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        if one.result == "skipped" and not (one.excuse and one.excuse.holds):
            yield f"{one.driver}: {one.test} was skipped without a reason and a citation in the capabilities"


def _gaps(cells: dict[tuple[str, str], Cell], parts: Collection[str]) -> Iterator[str]:
    for (name, driver), cell in cells.items():
        if cell.state == "FAILED" and driver not in parts:
            yield f"{driver}: {name}: {cell.note or 'a test of it failed'}"


def _shown(cell: Cell, notes: list[str]) -> str:
    return f"{cell.state} [{notes.index(cell.note) + 1}]" if cell.note else cell.state
