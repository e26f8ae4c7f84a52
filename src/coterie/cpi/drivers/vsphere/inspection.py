"""What the vCenter holds behind a server-group CID now, and how that differs from what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import GroupMember, GroupResource, GroupState, GroupView
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.group_spec import APART, TOGETHER
from coterie.cpi.drivers.vsphere.groups import Groups
from coterie.cpi.drivers.vsphere.holders import Holder
from coterie.cpi.drivers.vsphere.marking import vm_mark
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.refusals import cloud_call
from coterie.cpi.drivers.vsphere.rules import foreign_rules, policy_of, vm_rule

_MEMBER = ("name", "config.instanceUuid", "runtime.host")


@dataclass(frozen=True, slots=True)
class _Here:
    """The group in one cluster."""

    zone: Zone
    view: ClusterView
    holder: Holder

    @property
    def members(self) -> tuple[str, ...]:
        group = self.view.vm_group(self.holder.spec.name)
        return group.members if group else ()


class Inspection(Groups):
    @cloud_call
    def inspect_server_group(self, cid: str) -> GroupView:
        holder = self.holder(cid)
        if holder is None:
            return GroupView("missing", None, notes=(f"nothing in the vCenter remembers server group {cid}",))
        views = self.views()
        here = [_Here(zone, views[key], holder) for key, zone in self.by_cluster().items()]
        having = [one for one in here if one.view.vm_group(holder.spec.name)]
        rows = self._members([moid for one in having for moid in one.members])
        lost = [] if holder.spec.adopted else list(_lost(here))
        notes = [*lost, *_drift(having), *self._absent(holder, having)]
        return GroupView(
            state=_state(holder, having, lost, notes),
            policy=policy_of(having[0].view, holder.spec.name)
            if holder.spec.adopted and having
            else holder.spec.policy,
            resources=tuple(resource for one in having for resource in _resources(one)),
            members=tuple(rows[moid] for one in having for moid in one.members if moid in rows),
            notes=(*notes, *(note for one in having for note in _remarks(one))),
            hosts=self._allowed(having),
        )

    def _allowed(self, having: list[_Here]) -> tuple[str, ...] | None:
        """The hosts that rules tie the group to, ours or the administrator's; None where there is no such rule."""
        named: list[Any] = []
        for one in having:
            moids = _tied_to(one)
            if moids is None:
                return None
            named += [self.link.reference(sdk.vim.HostSystem, moid) for moid in moids]
        return tuple(sorted(self._host_names(named).values())) if having else None

    def _members(self, moids: list[str]) -> dict[str, GroupMember]:
        refs = [self.link.reference(sdk.vim.VirtualMachine, moid) for moid in moids]
        rows = self.reader.living(refs, sdk.vim.VirtualMachine, _MEMBER)
        hosts = self._host_names([row.get("runtime.host") for row in rows])
        return {
            row.ref._moId: GroupMember(
                str(row.get("config.instanceUuid")),
                hosts.get(row.get("runtime.host")),
                vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), self.runtime.director_uuid)
                is not None,
            )
            for row in rows
        }

    def _host_names(self, refs: list[Any]) -> dict[Any, str]:
        unique = list({ref._moId: ref for ref in refs if ref is not None}.values())
        return {row.ref: str(row.get("name")) for row in self.reader.several(unique, sdk.vim.HostSystem, ["name"])}

    def _absent(self, holder: Holder, having: list[_Here]) -> Iterator[str]:
        """VMs of ours that are in no group though they belong to this one; those still coming up are not counted."""
        if holder.spec.adopted:
            return
        inside = {moid for one in having for moid in one.members}
        for row in self.wishing(holder.cid):
            if row.ref._moId not in inside and row.get("runtime.powerState") == "poweredOn":
                yield f"VM {row.get('config.instanceUuid')} is no member any more: another writer replaced the list"


def _state(holder: Holder, having: list[_Here], lost: list[str], notes: list[str]) -> GroupState:
    if lost or (holder.spec.adopted and not having):
        return "missing"
    if notes:
        return "drifted"
    return "live" if having else "reserved"


def _lost(here: list[_Here]) -> Iterator[str]:
    for one in here:
        if one.zone.cluster._moId in one.holder.live and one.view.vm_group(one.holder.spec.name) is None:
            yield f"DRS VM group {one.holder.spec.name!r} was removed or renamed in cluster {one.view.name}"


def _drift(having: list[_Here]) -> Iterator[str]:
    for one in having:
        spec, view = one.holder.spec, one.view
        if spec.adopted:
            continue
        rule = vm_rule(view, spec)
        if rule is None and spec.policy in (*APART, *TOGETHER) and len(one.members) > 1:
            yield f"the rule {spec.name!r} was removed in cluster {view.name}"
        if rule is not None and not rule.enabled:
            yield f"the rule {rule.name!r} is switched off in cluster {view.name}"
        if spec.host_group and spec.host_rule not in view.rules and view.host_group(spec.host_group):
            yield f"the rule {spec.host_rule!r} was removed in cluster {view.name}"
        if spec.host_group and view.host_group(spec.host_group) is None:
            yield f"cluster {view.name} has no host group {spec.host_group!r}"
        if not view.drs:
            yield f"DRS is off in cluster {view.name}: groups and rules have no effect"


def _tied_to(one: _Here) -> set[str] | None:
    """By every rule that is in force at once."""
    rules = [rule for rule in one.view.about(one.holder.spec.name) if rule.affine and rule.enabled and rule.host_group]
    groups = [one.view.host_group(str(rule.host_group)) for rule in rules]
    tied = [set(group.members) for group in groups if group is not None]
    return set.intersection(*tied) if tied else None


def _remarks(one: _Here) -> Iterator[str]:
    """What is as it should be and good to know."""
    if one.view.drs:
        yield f"DRS is on in cluster {one.view.name}"
    for rule in foreign_rules(one.view, one.holder.spec):
        word = "must" if rule.mandatory else "should"
        side = "on" if rule.affine else "off"
        yield f"administrator's rule {rule.name!r} in {one.view.name}: {word} be {side} {rule.host_group!r}"


def _resources(one: _Here) -> Iterator[GroupResource]:
    spec, view, az = one.holder.spec, one.view, one.zone.name
    yield GroupResource("server_group", f"{view.name}/{spec.name}", az, not spec.adopted)
    rule = vm_rule(view, spec)
    if rule is not None:
        yield GroupResource("rule", f"{view.name}/{rule.name}", az, not spec.adopted)
    for found in view.about(spec.name):
        yield GroupResource("rule", f"{view.name}/{found.name}", az, found.name == spec.host_rule and not spec.adopted)
        if found.host_group:
            yield GroupResource("host_group", f"{view.name}/{found.host_group}", az, False)
