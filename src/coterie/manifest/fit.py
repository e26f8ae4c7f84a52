"""Tree → typed document: every place where the two do not fit, in the user's words."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from coterie.manifest.hints import Hints
from coterie.manifest.salvage import salvage
from coterie.manifest.schema import Part
from coterie.manifest.schema.fields import part_at, view
from coterie.manifest.tree import Flaw, Loc, Node
from coterie.manifest.wording import in_words, missing, no_choice, unknown_key

T = TypeVar("T", bound=Part)


def fit(part: type[T], root: Node) -> tuple[T | None, list[Flaw]]:
    """The document and no flaws; or the flaws, and what could be salvaged for further checks."""
    data = root.plain()
    try:
        return part.model_validate(data), []
    except ValidationError as error:
        flaws = _Findings(part, root).of(error)
        return salvage(part, data, error), flaws


class _Findings:
    """The validator's errors about one tree, as flaws."""

    def __init__(self, part: type[Part], root: Node) -> None:
        self._part = part
        self._root = root
        self._hints = Hints()

    def of(self, error: ValidationError) -> list[Flaw]:
        found = error.errors(include_url=False)
        misspelt = [self._unknown(_loc(entry)) for entry in found if entry["type"] == "extra_forbidden"]
        # A key that was only misspelt is not missing as well.
        meant = {flaw.meant for flaw in misspelt}
        rest = (self._flaw(entry, meant) for entry in found if entry["type"] != "extra_forbidden")
        return misspelt + [flaw for flaw in rest if flaw]

    def _unknown(self, loc: Loc) -> Flaw:
        key, part = str(loc[-1]), part_at(self._part, loc[:-1])
        known = tuple(part.model_fields) if part else ()
        meant = self._hints.near(key, known)
        what, remedy = unknown_key(key, known, meant)
        place = self._root.key_place(loc)
        return Flaw(loc, place, what, remedy, spoils=False, meant=(*loc[:-1], meant) if meant else None)

    def _flaw(self, entry: Any, meant: set[Loc | None]) -> Flaw | None:
        loc = _loc(entry)
        if entry["type"] == "missing":
            return None if loc in meant else self._missing(loc)
        if entry["type"] == "literal_error":
            return self._no_choice(loc, entry["input"])
        what, remedy = in_words(entry["type"], entry.get("ctx", {}), entry["input"])
        is_key = entry["loc"][-1:] == ("[key]",)
        return Flaw(loc, self._root.key_place(loc) if is_key else self._root.at(loc).place, what, remedy)

    def _no_choice(self, loc: Loc, value: Any) -> Flaw:
        steps = [step for step in loc if isinstance(step, str)]
        part = part_at(self._part, steps[:-1])
        choices = view(part, steps[-1]).choices if part else ()
        what, remedy = no_choice(value, choices, self._hints.near(str(value), choices))
        return Flaw(loc, self._root.at(loc).place, what, remedy)

    def _missing(self, loc: Loc) -> Flaw:
        key, part = str(loc[-1]), part_at(self._part, loc[:-1])
        what, remedy = missing(key, view(part, key).example if part else None)
        return Flaw(loc, self._root.at(loc[:-1]).place, what, remedy)


def _loc(entry: Any) -> Loc:
    loc: Loc = entry["loc"]
    return loc[:-1] if loc[-1:] == ("[key]",) else loc
