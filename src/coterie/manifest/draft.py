"""One document on its way from text to value: what could be made of it, and all that is wrong with it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from coterie.manifest.fit import fit
from coterie.manifest.loaded import Loaded
from coterie.manifest.mistake import Mistake
from coterie.manifest.rules.report import Report, mistake_of
from coterie.manifest.schema import Part
from coterie.manifest.tree import Fields, Flaw, Spoilt, read

T = TypeVar("T", bound=Part)


@dataclass(frozen=True, slots=True)
class Draft(Generic[T]):
    """`loaded` None: not even a mended version could be made. With mistakes, it is good for further checks only."""

    loaded: Loaded[T] | None
    mistakes: list[Mistake]
    spoilt: Spoilt


def draft(part: type[T], text: str, file: str, rules: Callable[[Report[T]], None]) -> Draft[T]:
    """Read, fit to the schema, check against the document's own rules; each as far as possible."""
    reading = read(text)
    value, misfits = fit(part, reading.root) if reading.root else (None, [])
    flaws = [*reading.flaws, *_news(misfits, reading.flaws)]
    fields = Fields(reading.partial)
    mistakes = [mistake_of(flaw, file, fields) for flaw in flaws]
    spoilt = Spoilt(flaws)
    if value is None or reading.root is None:
        return Draft(None, mistakes, spoilt)
    loaded = Loaded(value, file, reading.root)
    report = Report(loaded, spoilt)
    rules(report)
    return Draft(loaded, mistakes + report.mistakes, spoilt)


def _news(misfits: list[Flaw], before: list[Flaw]) -> list[Flaw]:
    """Misfits that are not just consequences of a value that could not be read."""
    spoilt = Spoilt(before)
    return [flaw for flaw in misfits if not spoilt.touches(flaw.loc)]
