"""Times for people, in the words of commands and pages: how long ago, how long it took. Standard library only."""

from __future__ import annotations

from datetime import UTC, datetime


def ago(moment: str | None) -> str:
    return "-" if moment is None else f"{span((datetime.now(UTC) - read(moment)).total_seconds())} ago"


def took(begin: str | None, end: str | None) -> str:
    if begin is None:
        return "-"
    last = read(end) if end else datetime.now(UTC)
    return span((last - read(begin)).total_seconds())


def clock(moment: str) -> str:
    return read(moment).astimezone().strftime("%H:%M:%S")


def read(moment: str) -> datetime:
    return datetime.fromisoformat(moment.replace("Z", "+00:00"))


def span(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"
