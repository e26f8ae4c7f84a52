"""What the cloud holds behind a server-group CID now, and how that differs from what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.cpi.contract import GroupMember, GroupResource, GroupState, GroupView, is_adopted
from coterie.cpi.drivers.sandbox.cloud import every
from coterie.cpi.drivers.sandbox.group_tags import asked_policy, guards_in
from coterie.cpi.drivers.sandbox.holders import Holders
from coterie.cpi.drivers.sandbox.marking import of_group
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.records import Record
from coterie.sandbox.security_groups import get_security_group
from coterie.sandbox.server_groups import Member, ServerGroup, list_members
from coterie.sandbox.vm_shape import list_vms


class Inspection(Holders):
    @cloud_call
    def inspect_server_group(self, cid: str) -> GroupView:
        groups = self.zone_groups(cid)
        holder = None if is_adopted(cid) else self.holder(cid)
        if holder is None and not (groups and is_adopted(cid)):
            return self._missing(cid, groups)
        members = [member for group in groups for member in self._all_members(group)]
        resources, notes = self._resources(holder, groups)
        if holder is not None:
            notes += self._drift(cid, holder, groups, members)
        policy = asked_policy(holder.tags) if holder and not groups else groups[0].policy
        return GroupView(
            state=_state(groups, notes),
            policy=policy,
            resources=tuple(resources),
            members=tuple(self._member(member) for member in members),
            notes=tuple(notes),
            hosts=_hosts(groups),
        )

    def _missing(self, cid: str, groups: list[ServerGroup]) -> GroupView:
        members = [member for group in groups for member in self._all_members(group)]
        return GroupView(
            state="missing",
            policy=groups[0].policy if groups else None,
            resources=tuple(self._group_resource(group) for group in groups),
            members=tuple(self._member(member) for member in members),
            notes=(f"server group {cid} was deleted behind our back",),
        )

    def _resources(self, holder: Record | None, groups: list[ServerGroup]) -> tuple[list[GroupResource], list[str]]:
        resources = [self._group_resource(group) for group in groups]
        notes = []
        for guard in guards_in(holder.tags) if holder else ():
            try:
                tags = get_security_group(self.account, guard).tags
                resources.append(GroupResource("security_group", guard, None, self.ours(tags)))
            except NoSuch:
                notes.append(f"security group {guard} was deleted behind our back")
        return resources, notes

    def _drift(self, cid: str, holder: Record, groups: list[ServerGroup], members: list[Member]) -> list[str]:
        asked = asked_policy(holder.tags)
        notes = [f"the cloud's policy is {g.policy}, asked was {asked}" for g in groups if g.policy != asked]
        wanted, joined = set(guards_in(holder.tags)), {member.vm for member in members}
        for vm in every(self.account, list_vms, of_group(cid)):
            if vm.host and vm.id not in joined:
                notes.append(f"VM {vm.id} is no member any more: another writer replaced the list")
            for guard in sorted(wanted.difference(vm.security_groups)):
                notes.append(f"VM {vm.id} lacks security group {guard}")
        return notes

    def _group_resource(self, group: ServerGroup) -> GroupResource:
        return GroupResource("server_group", group.id, group.zone, self.ours(group.tags))

    def _member(self, member: Member) -> GroupMember:
        return GroupMember(member.vm, member.host, self.ours(member.tags))

    def _all_members(self, group: ServerGroup) -> Iterator[Member]:
        after: str | None = None
        while True:
            members, after = list_members(self.account, group.id, after)
            yield from members
            if after is None:
                return


def _hosts(groups: list[ServerGroup]) -> tuple[str, ...] | None:
    """Of a group in several zones, each part may name its own."""
    if not groups or any(group.allowed is None for group in groups):
        return None
    return tuple(sorted({host for group in groups for host in group.allowed or ()}))


def _state(groups: list[ServerGroup], notes: list[str]) -> GroupState:
    if notes:
        return "drifted"
    return "live" if groups else "reserved"
