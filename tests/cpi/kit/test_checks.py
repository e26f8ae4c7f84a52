"""What every driver checks in the same way before it deletes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.cpi.contract import Changed, CloudObject, Expected, Mark
from coterie.cpi.kit.checks import require_same

MARK = Mark("00000000-0000-4000-8000-000000000000", "0" * 26)
THING = CloudObject(kind="disk", cid="d1", name="n", created_at=1.0, etag="e", mark=MARK)


def test_an_expected_object_passes_and_fields_without_expectation_are_not_compared() -> None:
    require_same(THING, Expected(MARK, 1.0, "e"))
    require_same(THING, Expected(MARK, None, None))


@pytest.mark.parametrize("change", [{"mark": None}, {"created_at": 2.0}, {"etag": "f"}])
def test_what_differs_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Changed):
        require_same(replace(THING, **change), Expected(MARK, 1.0, "e"))  # type: ignore[arg-type] # one field each


def test_without_a_mark_nothing_is_proven() -> None:
    with pytest.raises(Changed, match="mark"):
        require_same(replace(THING, mark=None), Expected(None, 1.0, "e"))
