"""Tags by which people say no: `coterie-keep` and `coterie-keep-until` on any object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time

KEEP = "coterie-keep"
KEEP_UNTIL = "coterie-keep-until"
_NO = {"", "false", "no", "0", "off"}


def opted_out(tags: Mapping[str, str] | None, now: float) -> str | None:
    """Why the object is to be kept, in words; None when its tags do not say so."""
    words = {key.lower(): value.strip() for key, value in (tags or {}).items()}
    if words.get(KEEP, "").lower() not in _NO:
        return f"its tag {KEEP} says so"
    told = words.get(KEEP_UNTIL)
    if not told:
        return None
    until = _moment(told)
    if until is None:
        return f"its tag {KEEP_UNTIL} is {told!r}, which is no date: it is kept until that is mended"
    return f"its tag {KEEP_UNTIL} says {told}" if now < until else None


def _moment(told: str) -> float | None:
    """A day counts to its end."""
    try:
        if len(told) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(told), time.max, UTC).timestamp()
        moment = datetime.fromisoformat(told.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
