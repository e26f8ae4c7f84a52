"""Guesses at what the user meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice

_SHOWN = 8
_COMPARED = 500
_LONGEST = 64


class Hints:
    """Comparing words is slow, so only the first hundred unknown words of a document are compared."""

    def __init__(self, budget: int = 100) -> None:
        self._budget = budget
        self._known: dict[tuple[str, tuple[str, ...]], str | None] = {}

    def near(self, word: str, known: Collection[str]) -> str | None:
        """The known word that looks most like `word`."""
        if len(known) > _COMPARED or len(word) > _LONGEST:
            return None
        question = (word, tuple(known))
        if question not in self._known and self._budget > 0:
            self._budget -= 1
            self._known[question] = _nearest(*question)
        return self._known.get(question)

    def remedy(self, word: str, known: Collection[str], noun: str) -> str:
        """`did you mean 'z1'? Known azs: z1, z2`."""
        if not known:
            return f"define it: there are no {noun} at all"
        meant = self.near(word, known)
        question = f"did you mean '{meant}'? " if meant else ""
        return f"{question}the {noun} are {list_words(known)}"


def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return lower[found[0]] if found else None


def list_words(words: Collection[str]) -> str:
    """The first few words, and how many more there are."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(islice(words, _SHOWN)) + more
