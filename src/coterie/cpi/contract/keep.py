"""How people keep an object of any kind from being deleted: words in its tags, metadata, properties or description.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time

KEEP = "coterie-keep"
KEEP_UNTIL = "coterie-keep-until"
_NO = {"", "false", "no", "0", "off"}


def opt_out_reason(tags: Mapping[str, str] | None, now: float) -> str | None:
    """Why the object is to be kept, in words; None when its tags do not say so. A word that only begins like ours is
    probably misspelt, so it keeps the object, too."""
    words = {key.lower(): value.strip() for key, value in (tags or {}).items() if key.lower().startswith(KEEP)}
    if words.get(KEEP, "").lower() not in _NO:
        return f"its tag {KEEP} says so"
    strange = sorted(words.keys() - {KEEP, KEEP_UNTIL})
    if strange:
        return f"its tag {strange[0]} is not known: it is kept until that is mended"
    value = words.get(KEEP_UNTIL)
    if not value:
        return None
    until = _moment(value)
    if until is None:
        return f"its tag {KEEP_UNTIL} is {value!r}, which is no date: it is kept until that is mended"
    return f"its tag {KEEP_UNTIL} says {value}" if now < until else None


def read_keep_words(words: Iterable[str]) -> dict[str, str]:
    """From tags without values and from the words of a description: `coterie-keep`, `coterie-keep-until=2026-01-31`."""
    split = (word.partition("=") for word in words if word.lower().startswith(KEEP))
    # without a value, the first means yes, and the other is no date
    return {key: value if equals or key.lower() != KEEP else "yes" for key, equals, value in split}


def _moment(value: str) -> float | None:
    """A day counts to its end."""
    try:
        if len(value) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value), time.max, UTC).timestamp()
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
