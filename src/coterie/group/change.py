"""What becomes of a server group when the wish for it changes: one table, so that nothing else has to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from coterie.errors import CoterieError

Fate = Literal["keep", "update", "replace"]

# state → states it may move to; the rows in the ledger say what each one means
LIFE: Mapping[str, frozenset[str]] = {
    "intended": frozenset({"live", "deleting"}),
    "live": frozenset({"live", "missing", "deleting"}),
    "missing": frozenset({"live", "deleting"}),
    "deleting": frozenset({"deleting", "intended", "live", "gone"}),
    "gone": frozenset(),
}


def fate(now: Mapping[str, Any], wish: Mapping[str, Any], changeable: frozenset[str] = frozenset()) -> tuple[Fate, str]:
    """Compare the metadata a group was made with to the wish. A policy is fixed for life, on most clouds too.

    `changeable`: options that this cloud changes on a living group.
    """
    if now["policy"] != wish["policy"]:
        return "replace", f"policy {now['policy'] or 'none'} → {wish['policy'] or 'none'}"
    options = _changed_options(now, wish)
    if not changeable.issuperset(options):
        return "replace", "its options changed"
    changed = [field for field in ("azs", "security_groups") if now[field] != wish[field]]
    if changed or options:
        return "update", " and ".join(word.replace("_", " ") for word in (*changed, *options)) + " changed"
    return "keep", ""


def require_move(old: str, new: str) -> None:
    """An illegal transition cannot be written."""
    if new not in LIFE[old]:
        raise CoterieError(f"a server group cannot go from {old} to {new}")


def _changed_options(now: Mapping[str, Any], wish: Mapping[str, Any]) -> list[str]:
    before, after = _options(now), _options(wish)
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _options(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that say nothing. Not adopting is the same as not speaking of it; other flags have a meaning."""
    return {
        key: value
        for key, value in metadata["options"].items()
        if value is not None and not (key == "adopt" and value is False)
    }
