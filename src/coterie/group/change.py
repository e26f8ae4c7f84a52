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
    "deleting": frozenset({"deleting", "live", "gone"}),
    "gone": frozenset(),
}


def fate(now: Mapping[str, Any], wish: Mapping[str, Any]) -> tuple[Fate, str]:
    """Compare the metadata a group was made with to the wish. A policy is fixed for life, on most clouds too."""
    if now["policy"] != wish["policy"]:
        return "replace", f"policy {now['policy'] or 'none'} → {wish['policy'] or 'none'}"
    if _options(now) != _options(wish):
        return "replace", "its options changed"
    changed = [field for field in ("azs", "security_groups") if now[field] != wish[field]]
    if changed:
        return "update", " and ".join(field.replace("_", " ") for field in changed) + " changed"
    return "keep", ""


def require_move(old: str, new: str) -> None:
    """An illegal transition cannot be written."""
    if new not in LIFE[old]:
        raise CoterieError(f"a server group cannot go from {old} to {new}")


def _options(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata["options"].items() if value not in (None, False)}
