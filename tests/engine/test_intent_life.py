"""What an error of a create proves: of a first call more than of a repeat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie.cpi.contract import CloudObject, CpiError, Mark, Throttled, Unavailable
from coterie.engine import intent_life

DIRECTOR = "8d8c4a1e-0000-4000-8000-000000000001"
INTENT = "0123456789abcdefghjkmnpqrs"


def work() -> Any:
    """In a cloud that has the object already."""
    found = CloudObject("disk", "d-1", "d-1", mark=Mark(DIRECTOR, INTENT))
    cpi = SimpleNamespace(capabilities=lambda: SimpleNamespace(finds=True), find=lambda kind, mark: found)
    progress, claim = SimpleNamespace(uncalled=None), SimpleNamespace(epoch=7)
    return SimpleNamespace(progress=progress, claim=claim, director_uuid=DIRECTOR, cpi=cpi)


@pytest.mark.parametrize(
    ("is_first", "error", "is_proven"),
    [
        (False, Throttled("later", remedy="wait"), False),
        (False, Unavailable("down", remedy="wait"), False),
        (False, CpiError("no", remedy="change it"), True),
        (True, Throttled("later", remedy="wait"), True),
    ],
)
def test_a_repeat_that_the_cloud_did_not_take_proves_nothing(is_first: bool, error: CpiError, is_proven: bool) -> None:
    def fail(mark: Mark) -> str:
        raise error

    creating = work()
    if is_first:
        intent_life.note_uncalled(creating, INTENT)
    with pytest.raises(type(error)):
        intent_life.create_or_resume(creating, "disk", INTENT, fail)
    assert intent_life.is_uncalled_after_failure(creating, INTENT) is is_proven
