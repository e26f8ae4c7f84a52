"""An az or an instance group may have only those conductor groups that its clouds are sealed to."""

from __future__ import annotations

from typing import TypeVar

from coterie.manifest.rules.pair import Pair
from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Cloud, Part
from coterie.manifest.tree import Loc

T = TypeVar("T", bound=Part)


def check_conductor_groups(pair: Pair) -> None:
    """Of the instance groups of a manifest."""
    clouds = {cloud.name: cloud for cloud in reversed(pair.config.value.clouds)}
    for loc, group in pair.groups():
        if group.conductor_group is None:
            continue
        used = dict.fromkeys(pair.azs[name].cloud for name in group.azs if name in pair.azs)
        for cloud in (clouds[name] for name in used if name in clouds):
            check_sealed(pair.deployment, (*loc, "conductor_group"), group.conductor_group, cloud)


def check_sealed(report: Report[T], loc: Loc, group: str, cloud: Cloud) -> None:
    if group.lower() in cloud.conductor_groups:
        return
    report.add(
        loc,
        f"cloud '{cloud.name}' is not sealed to conductor group '{group}'",
        f"use one of {', '.join(map(repr, cloud.conductor_groups))}, or add it to other_conductor_groups of that cloud",
    )
