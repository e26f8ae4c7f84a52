"""Server groups that a manifest asks for, judged before anything is made: DRS, host groups, names, adopted groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coterie.cpi.contract import CheckItem, CpiError, GroupMetadata, NameTaken, Needs
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.group_spec import GroupSpec, read_spec, wanted_name
from coterie.cpi.drivers.vsphere.names import Names
from coterie.cpi.drivers.vsphere.places import is_up
from coterie.cpi.drivers.vsphere.rules import policy_of

_SAMPLE = "cg-0000000000-00000000000000000000000000"  # stands for the CID that the group will get


class GroupChecks(Names):
    def group_items(self, needs: Needs) -> Iterator[CheckItem]:
        if not needs.policies and not needs.groups:
            return
        views = self.views()
        for view in self._within(needs.azs, views).values():
            if not view.drs:
                detail = f"DRS is off in cluster {view.name}, so groups and rules have no effect"
                yield CheckItem(f"DRS {view.name}", False, detail, "have the administrator switch DRS on")
        for wish in needs.groups:
            yield from self._group_item(wish, views)
        yield from _doubles(needs)

    def _within(self, azs: Sequence[str], views: dict[str, ClusterView]) -> dict[str, ClusterView]:
        """Those of these zones; of all, where none is named."""
        return {key: view for key, view in views.items() if not azs or self.zones()[key].name in azs}

    def _group_item(self, wish: Mapping[str, Any], views: dict[str, ClusterView]) -> Iterator[CheckItem]:
        what = f"server group {wish.get('name')}"
        options = wish.get("options") or {}
        zones = self._within(wish.get("azs") or (), views)
        try:
            spec = read_spec(
                GroupMetadata({}, "", str(wish.get("name")), policy=wish.get("policy"), options=options), _SAMPLE
            )
        except CpiError as error:
            yield CheckItem(what, False, str(error), error.remedy)
            return
        if options.get("adopt"):
            yield from _adoptable(what, wanted_name(options), wish.get("policy"), zones)
        else:
            yield from self._nameable(what, wish, spec, views)
        if spec.host_group:
            yield from self._hosted(what, spec, zones, views)

    def _nameable(
        self, what: str, wish: Mapping[str, Any], spec: GroupSpec, views: dict[str, ClusterView]
    ) -> Iterator[CheckItem]:
        """Whether its name is free; a group that is there and stays what it is has it already."""
        options, cid = wish.get("options") or {}, wish.get("cid")
        present, named = self.holder(cid, whole=False) if cid else None, options.get("vm_group")
        try:
            if present is None or named not in (None, present.spec.name):
                self.require_free_name(options, spec, views)
            elif present.spec.policy == spec.policy:
                self.require_free_rule(present, replace(spec, name=present.spec.name), views)
            elif named:
                raise NameTaken(
                    f"{named!r} is the name of the present group, and another policy needs another group",
                    remedy="give another placement.vm_group along with the new policy",
                )
        except NameTaken as taken:
            yield CheckItem(what, False, str(taken), taken.remedy)

    def _hosted(
        self, what: str, spec: GroupSpec, zones: dict[str, ClusterView], views: dict[str, ClusterView]
    ) -> Iterator[CheckItem]:
        name = str(spec.host_group)
        elsewhere = sorted(view.name for view in views.values() if view.host_group(name))
        for zone, view in zones.items():
            group = view.host_group(name)
            if group is None:
                why = f"it is in {', '.join(elsewhere)}" if elsewhere else "no cluster has it"
                detail = f"cluster {view.name} has no host group {name!r}: {why}"
                yield CheckItem(what, False, detail, "have the administrator make it there, or leave this zone out")
            elif spec.affine and not self._any_up(zone, group.members):
                detail = f"no host of {name!r} is up in cluster {view.name}"
                yield CheckItem(what, False, detail, "add hosts to the host group, or end their maintenance")

    def _any_up(self, zone: str, members: tuple[str, ...]) -> bool:
        return any(row.ref._moId in members and is_up(row) for row in self.hosts(self.zones()[zone]))


def _doubles(needs: Needs) -> Iterator[CheckItem]:
    """A DRS VM group is one server group's, unless it is an operator's."""
    owners: dict[str, str] = {}
    for wish in needs.groups:
        options = wish.get("options") or {}
        name = None if options.get("adopt") else options.get("vm_group")
        if name in owners:
            detail = f"server group {owners[name]} has the vm_group {name!r} already"
            remedy = "give them the same placement.server_group to share one, or another vm_group"
            yield CheckItem(f"server group {wish.get('name')}", False, detail, remedy)
        elif name:
            owners[str(name)] = str(wish.get("name"))


def _adoptable(what: str, name: str | None, policy: str | None, zones: dict[str, ClusterView]) -> Iterator[CheckItem]:
    if not name:
        yield CheckItem(what, False, "adopt needs a name", "say placement.vm_group or placement.server_group")
        return
    for view in zones.values():
        group = view.vm_group(name)
        if group is None:
            detail = f"cluster {view.name} has no DRS VM group {name!r} to adopt"
            yield CheckItem(what, False, detail, "have the operator make it there, or leave this zone out")
        elif policy_of(view, group.name) != policy:
            detail = f"DRS VM group {name!r} in {view.name} promises {policy_of(view, group.name)}, not {policy}"
            yield CheckItem(what, False, detail, f"say placement.policy: {policy_of(view, group.name)}")
