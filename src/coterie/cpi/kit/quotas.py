"""Quotas and hosts as facts for the planner, and what a check says about them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CheckItem, Needs

Quotas = dict[str, dict[str, int | None]]
_STRICT = "anti-affinity:"


def quota(limit: Any, used: Any) -> dict[str, int | None]:
    """One quota as the planner reads it. A limit below zero, or one that is no number, is none."""
    try:
        number: int | None = int(float(limit))
    except (TypeError, ValueError):
        number = None
    return {"limit": number if number is not None and number >= 0 else None, "used": int(float(used or 0))}


def host(
    name: str, az: str | None, rack: str | None = None, free_cpu: int | None = None, free_ram_mb: int | None = None
) -> dict[str, Any]:
    """A host as the planner reads it; None where the cloud does not tell."""
    return {"name": name, "az": az, "rack": rack, "free_cpu": free_cpu, "free_ram_mb": free_ram_mb}


def host_items(needs: Needs, hosts: Sequence[Mapping[str, Any]], *, strict: bool = False) -> list[CheckItem]:
    """Whether every zone has hosts that are up. `strict`: and as many as strict groups need; for clouds whose list of
    hosts is complete."""
    dark = [az for az in needs.azs if not any(one["az"] == az for one in hosts)]
    detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(hosts)} hosts are up"
    remedy = "have an administrator look at them" if dark else ""
    items = [CheckItem("hosts", not dark, detail, remedy, {"hosts": list(hosts)})]
    if strict:
        items += [_strict_item(key, count, hosts) for key, count in needs.counts.items() if key.startswith(_STRICT)]
    return items


def az_item(needs: Needs, names: Sequence[str], default: str | None, word: str) -> CheckItem:
    """Whether all zones that are needed are among these; `word`: what the cloud calls them."""
    unknown = [az for az in (*needs.azs, *([default] if default else ())) if az not in names]
    if unknown:
        return CheckItem(
            "azs", False, f"there is no {word} {', '.join(unknown)}", f"use one of: {', '.join(names) or 'none'}"
        )
    return CheckItem("azs", True, f"{word}s {', '.join(names) or 'none'}", facts={"azs": list(names)})


def _strict_item(key: str, count: int, hosts: Sequence[Mapping[str, Any]]) -> CheckItem:
    az = key.removeprefix(_STRICT)
    up = sum(1 for one in hosts if one["az"] == az)
    detail = f"{count} members need {count} hosts in {az}, {up} are up"
    remedy = "" if up >= count else "ask for fewer instances, add hosts, or use soft-anti-affinity"
    return CheckItem(key, up >= count, detail, remedy)
