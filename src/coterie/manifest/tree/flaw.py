"""A mistake before it has a file name, and the set of values that such mistakes made untrustworthy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie.manifest.tree.node import Loc, Place


@dataclass(frozen=True, slots=True)
class Flaw:
    """`spoils`: the value there cannot be believed, so what follows from it is no mistake of the user's. `meant`: the
    key that a misspelt one was meant to be; the value of that is not known either."""

    loc: Loc
    place: Place
    what: str
    remedy: str
    spoils: bool = True
    meant: Loc | None = None


class Unreadable(Exception):
    """Reading cannot continue; `flaw` holds the reason. Never leaves this package."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.what)
        self.flaw = flaw


class Spoilt:
    """Which places of a document are spoilt. A test costs the depth of the place, not the number of flaws."""

    def __init__(self, flaws: Iterable[Flaw] = ()) -> None:
        flaws = tuple(flaws)
        self._exact = {flaw.loc for flaw in flaws if flaw.spoils} | {flaw.meant for flaw in flaws if flaw.meant}
        self._above = {loc[:n] for loc in self._exact for n in range(len(loc))}
        # A list with a nameless or broken entry: the names in it are not known completely.
        self._uncertain = {loc[0] for loc in self._exact if loc and _hides_a_name(loc)}

    def touches(self, loc: Loc) -> bool:
        """Whether the value at `loc`, anything around it or anything in it is spoilt."""
        return loc in self._above or any(loc[:n] in self._exact for n in range(len(loc) + 1))

    def hides_names(self, section: str) -> bool:
        return section in self._uncertain


def _hides_a_name(loc: Loc) -> bool:
    return len(loc) < 3 or (len(loc) == 3 and loc[2] in ("name", "alias"))
