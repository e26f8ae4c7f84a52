"""Which findings a cleanup was asked to act on, and which are ripe. Pure; each refusal is a sentence."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from coterie.cleanup.options import Options

Row = dict[str, Any]
_KEPT_FOR_UNDO = ("disk", "snapshot")


def left_out(row: Row, options: Options, now: float) -> str | None:
    """Why the options leave this finding alone; None when it is meant."""
    for what, value in (("kind", row["kind"]), ("cloud", row["cloud"]), ("az", row["az"])):
        wanted, unwanted = getattr(options, f"{what}s"), getattr(options, f"not_{what}s")
        if (wanted and value not in wanted) or value in unwanted:
            return f"left out: its {what} is {value}"
    named = _matches(row["name"], options.names)
    if (options.names and not named) or _matches(row["name"], options.not_names):
        return f"left out: its name is {row['name']!r}"
    return _too_young(row, options, now)


def unripe(row: Row, options: Options, now: float) -> float | None:
    """Until when it has to wait; None when its time has come."""
    ripe = (row["since"] or now) + _window(row, options)
    return ripe if ripe > now else None


def retires(row: Row, options: Options) -> bool:
    """Whether a deletion only begins the undo window."""
    return row["kind"] == "disk" and options.disks == "keep" and options.undo_s > 0 and not _in_undo_window(row)


def _matches(name: str | None, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name or "", glob) for glob in globs)


def _too_young(row: Row, options: Options, now: float) -> str | None:
    if not options.older_than_s:
        return None
    if row["created_at"] is None:
        return "left out: the cloud does not say how old it is"
    age = now - row["created_at"]
    if age < 0:
        return "left out: made in the future, so the cloud's clock and ours differ"
    return f"left out: made {age:.0f} s ago" if age < options.older_than_s else None


def _window(row: Row, options: Options) -> float:
    return options.undo_s if _in_undo_window(row) and row["kind"] in _KEPT_FOR_UNDO else options.grace_s


def _in_undo_window(row: Row) -> bool:
    return bool(row["doomed"]) or row["ledger_state"] == "kept"
