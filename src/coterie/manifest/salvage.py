"""Mends a document that does not fit its schema, so that the rest of it can be checked in the same run.

What it makes is never deployed: stand-ins are the schema's own examples, and nothing is reported about them.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from coterie.manifest.schema import Part
from coterie.manifest.schema.fields import part_at, sample, view
from coterie.manifest.tree import Loc

T = TypeVar("T", bound=Part)
_ROUNDS = 4  # mending a holder can uncover what it held; stand-ins are valid, so this ends soon


def salvage(part: type[T], data: Any, error: ValidationError) -> T | None:
    """The mended document, or None if nothing sensible is left. Changes `data`."""
    if not isinstance(data, dict):
        return None
    for _ in range(_ROUNDS):
        for entry in error.errors(include_url=False, include_context=False, include_input=False):
            _mend(part, data, tuple(step for step in entry["loc"] if step != "[key]"))
        try:
            return part.model_validate(data)
        except ValidationError as again:
            error = again
    return None


def _mend(part: type[Part], data: Any, loc: Loc) -> None:
    """Replace the value at `loc`; list items stay in their places, so that line numbers stay right."""
    holder = data
    for step in loc[:-1]:
        holder = holder[step]
    last = loc[-1]
    if isinstance(last, int):
        holder[last] = _item(part, loc)
        return
    owner = part_at(part, loc[:-1])
    if owner and last in owner.model_fields and view(owner, last).required:
        holder[last] = view(owner, last).example
    else:
        holder.pop(last, None)


def _item(part: type[Part], loc: Loc) -> Any:
    below = part_at(part, loc)
    if below:
        return sample(below)
    owner = part_at(part, loc[:-2])
    return view(owner, str(loc[-2])).example[0] if owner else None
