"""Instance groups that share a server group must agree on what it is."""

from __future__ import annotations

from typing import Any

from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Deployment, InstanceGroup, Placement
from coterie.manifest.schema.placement import DRIVERS_OWN
from coterie.manifest.server_groups import joins, logical_name
from coterie.manifest.tree import Loc

_PLACEMENT = ("policy", "adopt", "recreate_on_policy_change", *DRIVERS_OWN, "options")


def check_sharing(report: Report[Deployment]) -> None:
    auto = bool(report.value.features.enable_auto_anti_affinity)
    first: dict[str, tuple[Loc, InstanceGroup]] = {}
    for i, group in enumerate(report.value.instance_groups):
        if joins(group, auto):
            loc: Loc = ("instance_groups", i)
            first_loc, first_group = first.setdefault(logical_name(group), (loc, group))
            if first_group is not group:
                _compare(report, (loc, group), (first_loc, first_group))


def _compare(report: Report[Deployment], later: tuple[Loc, InstanceGroup], first: tuple[Loc, InstanceGroup]) -> None:
    group, first_group = later[1], first[1]
    for name in _PLACEMENT:
        if _placement_field(group, name) != _placement_field(first_group, name):
            _disagree(report, later, first, ("placement", name))
    if set(group.security_groups) != set(first_group.security_groups):
        _disagree(report, later, first, ("security_groups",))


def _placement_field(group: InstanceGroup, name: str) -> Any:
    return getattr(group.placement or Placement(), name)


def _disagree(
    report: Report[Deployment], later: tuple[Loc, InstanceGroup], first: tuple[Loc, InstanceGroup], field: Loc
) -> None:
    (loc, group), (first_loc, first_group) = later, first
    name = ".".join(str(step) for step in field)
    what = (
        f"'{group.name}' and '{first_group.name}' (line {report.line((*first_loc, *field))}) share the server group "
        f"'{logical_name(group)}', but differ in {name}"
    )
    report.add((*loc, *field), what, f"give both the same {name}, or different server groups", (*first_loc, *field))
