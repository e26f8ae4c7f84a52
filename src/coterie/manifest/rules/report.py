"""Where rules write what they find about one document. What only follows from an earlier mistake is not reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from coterie.manifest.document import Loaded, Mistake
from coterie.manifest.hints import Hints
from coterie.manifest.schema import Part
from coterie.manifest.tree import Fields, Flaw, Loc, Spoilt

T = TypeVar("T", bound=Part)
_LONGEST = 400


class Report(Generic[T]):
    def __init__(self, loaded: Loaded[T], spoilt: Spoilt | None = None) -> None:
        self.value = loaded.value
        self.file = loaded.file
        self.hints = Hints()
        self.mistakes: list[Mistake] = []
        self._loaded = loaded
        self._spoilt = spoilt or Spoilt()

    def add(self, loc: Loc, what: str, remedy: str, *because: Loc) -> None:
        """A mistake at `loc`; dropped if the value there, or one of `because`, is already known to be wrong."""
        if self.sound(loc, *because):
            flaw = Flaw(loc, self._loaded.line(loc), what, remedy)
            self.mistakes.append(mistake_of(flaw, self.file, self._loaded.fields))

    def sound(self, *locs: Loc) -> bool:
        return not any(self._spoilt.touches(loc) for loc in locs)

    def names_all(self, section: str) -> bool:
        """Whether the names in a top-level list are all known, so that another name is certainly unknown."""
        return not self._spoilt.hides_names(section)

    def line(self, loc: Loc) -> int:
        return self._loaded.line(loc)[0]

    def unique(self, names: Iterable[tuple[Loc, str]], noun: str) -> None:
        """Each of these names may be used once."""
        first: dict[str, Loc] = {}
        for loc, name in names:
            earlier = first.setdefault(name, loc)
            if earlier is not loc:
                what = f"the {noun} '{name}' is given twice, first in line {self.line(earlier)}"
                self.add(loc, what, "rename or remove one of them", earlier)


def mistake_of(flaw: Flaw, file: str, fields: Fields) -> Mistake:
    line, column = flaw.place
    return Mistake(file, line, column, _tidy(fields.words(flaw.loc)), _tidy(flaw.what), _tidy(flaw.remedy))


def _tidy(text: str) -> str:
    """One printable line of bounded length, whatever a name or key in it may hold."""
    clean = text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return clean if len(clean) <= _LONGEST else clean[:_LONGEST] + "…"
