"""Nodes of another instance group: each goes to one group only, and its old group is not in the manifest any more."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Deployment, InstanceGroup
from coterie.manifest.schema.instance_group import MigratedFrom
from coterie.manifest.tree import Loc

Entry = tuple[Loc, InstanceGroup, MigratedFrom]


def check_migration(report: Report[Deployment]) -> None:
    present = {group.name for group in report.value.instance_groups}
    first: dict[str, list[Entry]] = {}
    for loc, group, source in _entries(report.value):
        if source.name == group.name:
            _check_own(report, loc, group, source)
        elif source.name in present:
            what = f"'{source.name}' is still an instance group of this manifest"
            report.add((*loc, "name"), what, f"remove that instance group, or '{source.name}' here")
        _check_twice(report, (loc, group, source), first.setdefault(source.name, []))


def _entries(deployment: Deployment) -> Iterator[Entry]:
    for i, group in enumerate(deployment.instance_groups):
        for n, source in enumerate(group.migrated_from):
            yield ("instance_groups", i, "migrated_from", n), group, source


def _check_own(report: Report[Deployment], loc: Loc, group: InstanceGroup, source: MigratedFrom) -> None:
    if source.az is None:
        what = f"'{source.name}' is this instance group itself"
        report.add((*loc, "name"), what, "name the group that the nodes are in now, or add az: the one that they leave")
    elif source.az in group.azs:
        what = f"nodes shall leave the az '{source.az}', which is among the azs of the group"
        report.add((*loc, "az"), what, "take it out of azs, or remove this entry")


def _check_twice(report: Report[Deployment], entry: Entry, before: list[Entry]) -> None:
    loc, _, source = entry
    for earlier, _, other in before:
        if None in (source.az, other.az) or source.az == other.az:
            what = f"nodes of '{source.name}' are migrated twice, first in line {report.line((*earlier, 'name'))}"
            report.add((*loc, "name"), what, "name a group once, or each of its azs once")
            return
    before.append(entry)
