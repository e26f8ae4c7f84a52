"""What happens to a server group when its spec changes: one table, so that nothing else has to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from coterie.cpi.contract import GroupMetadata
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


def fate(now: GroupMetadata, wanted: GroupMetadata, changeable: frozenset[str] = frozenset()) -> tuple[Fate, str]:
    """Compare what a group was made as with what it shall be. A policy is fixed for life, on most clouds too.

    `changeable`: options that this cloud changes on a living group.
    """
    if now.policy != wanted.policy:
        return "replace", f"policy {now.policy or 'none'} → {wanted.policy or 'none'}"
    options = _changed_options(now, wanted)
    if not changeable.issuperset(options):
        return "replace", "its options changed"
    changed = []
    if now.azs != wanted.azs:
        changed.append("azs")
    if now.security_groups != wanted.security_groups:
        changed.append("security groups")
    if changed or options:
        return "update", " and ".join([*changed, *(option.replace("_", " ") for option in options)]) + " changed"
    return "keep", ""


def require_move(old: str, new: str) -> None:
    """An illegal transition cannot be written."""
    if new not in LIFE[old]:
        raise CoterieError(f"a server group cannot go from {old} to {new}")


def _changed_options(now: GroupMetadata, wanted: GroupMetadata) -> list[str]:
    before, after = _options(now), _options(wanted)
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _options(metadata: GroupMetadata) -> dict[str, Any]:
    """Without those that say nothing: `adopt: false` means the same as no `adopt`; other flags have a meaning."""
    return {
        key: value
        for key, value in metadata.options.items()
        if value is not None and not (key == "adopt" and value is False)
    }
