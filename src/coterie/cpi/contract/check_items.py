"""Items of a check that every driver answers in the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.cpi.contract.errors import CpiError
from coterie.cpi.contract.types import CheckItem, Needs


def tried(what: str, look: Callable[[], CheckItem]) -> CheckItem:
    """What a look says; that it failed is an answer too."""
    try:
        return look()
    except CpiError as error:
        return CheckItem(what, False, str(error), error.remedy)


def policy_items(needs: Needs, can: Iterable[str]) -> list[CheckItem]:
    possible = sorted(can)
    return [
        CheckItem(f"policy {policy}", True, "possible")
        if policy in possible
        else CheckItem(
            f"policy {policy}", False, "impossible on this cloud", f"use {', '.join(possible) or 'no policy'}"
        )
        for policy in needs.policies
    ]


def kind_items(needs: Needs, can: Iterable[str]) -> list[CheckItem]:
    missing = [kind for kind in needs.kinds if kind not in can]
    return [CheckItem(f"kind {kind}", False, "this cloud makes none", "do without") for kind in missing]


def quota_item(
    needs: Needs,
    facts: Mapping[str, Mapping[str, Any]],
    resources: Mapping[str, str],
    remedy: str = "ask for fewer, delete some, or have an administrator raise the limit",
) -> CheckItem:
    """`facts`: resource → {limit, used}, limit None where there is none; `resources`: the cloud's words for kinds."""
    asked: Counter[str] = Counter()
    for kind, count in needs.counts.items():
        asked[resources.get(kind, kind)] += count
    short = [
        f"{name}: {asked[name]} more needed, {one['used']} of {one['limit']} used"
        for name, one in facts.items()
        if asked[name] and one["limit"] is not None and (one["used"] or 0) + asked[name] > one["limit"]
    ]
    detail = "; ".join(short) or "enough is left"
    return CheckItem("quotas", not short, detail, remedy if short else "", {"quotas": facts})
