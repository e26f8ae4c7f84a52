"""Cron expressions: five fields, UTC. Pure: a text and a moment in, the next moment out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from coterie.errors import UsageError

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_LONGEST = timedelta(days=366 * 5)  # the 29th of February comes within that


@dataclass(frozen=True, slots=True)
class Cron:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0: Sunday
    either_day: bool  # as cron has it: where both days are given, one of them suffices

    @staticmethod
    def read(text: str) -> Cron:
        words = text.split()
        if len(words) != len(_FIELDS):
            raise _wrong(text, "it needs five fields: minute hour day month weekday")
        minutes, hours, days, months, weekdays = (
            _values(text, word, *field) for word, field in zip(words, _FIELDS, strict=True)
        )
        weekdays = frozenset(day % 7 for day in weekdays)
        return Cron(minutes, hours, days, months, weekdays, words[2] != "*" and words[4] != "*")

    def after(self, moment: float) -> float | None:
        """The first time that is due after this moment; None for a day that never comes."""
        at = datetime.fromtimestamp(moment, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = at + _LONGEST
        while at < end:
            if not self._day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def _day(self, at: datetime) -> bool:
        of_month, of_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return at.month in self.months and ((of_month or of_week) if self.either_day else (of_month and of_week))


def _values(text: str, word: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, dash, last = (str(low), "-", str(high)) if span == "*" else span.partition("-")
        numbers = (first, last if dash else (str(high) if step else first), step or "1")
        if not all(number.isdigit() for number in numbers):
            raise _wrong(text, f"{name} is {word!r}")
        begin, end, every = map(int, numbers)
        if not low <= begin <= end <= high or every < 1:
            raise _wrong(text, f"{name} is {word!r}; it goes from {low} to {high}")
        found.update(range(begin, end + 1, every))
    return frozenset(found)


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"{text!r} is no cron expression", why=why, remedy='for example "30 3 * * *": daily at 03:30 UTC')
