"""Cron expressions against moments worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from coterie.cleanup.cron import Cron
from coterie.cleanup.options import within
from coterie.errors import UsageError

NOW = datetime(2026, 2, 27, 12, 30, 15, tzinfo=UTC).timestamp()  # a Friday


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("* * * * *", "2026-02-27 12:31"),
        ("30 3 * * *", "2026-02-28 03:30"),
        ("*/20 * * * *", "2026-02-27 12:40"),
        ("0 9-17/4 * * 1-5", "2026-02-27 13:00"),
        ("0 0 1 * *", "2026-03-01 00:00"),
        ("0 0 * * 7", "2026-03-01 00:00"),
        ("0 0 13 * 1", "2026-03-02 00:00"),
        ("5,50 12 27 2 *", "2026-02-27 12:50"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("30 12 * * *", "2026-02-28 12:30"),
    ],
)
def test_when_it_is_due(text: str, due: str) -> None:
    moment = Cron.read(text).after(NOW)
    assert moment is not None
    assert datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M") == due


def test_a_day_that_never_comes() -> None:
    assert Cron.read("0 0 31 2 *").after(NOW) is None


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "* 24 * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *"])
def test_nonsense(text: str) -> None:
    with pytest.raises(UsageError):
        Cron.read(text)


@pytest.mark.parametrize(
    ("hours", "hour", "inside"),
    [
        ("22-6", 23, True),
        ("22-6", 5, True),
        ("22-6", 6, False),
        ("1-3", 2, True),
        ("1-3", 3, False),
        ("0-24", 23, True),
    ],
)
def test_allowed_hours(hours: str, hour: int, inside: bool) -> None:
    assert within(hours, hour * 3600.0) is inside
