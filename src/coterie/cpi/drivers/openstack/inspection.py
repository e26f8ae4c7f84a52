"""What the cloud holds behind a server-group CID now, and how that differs from what was asked."""

from __future__ import annotations

from coterie.cpi.contract import GroupMember, GroupResource, GroupView, is_adopted
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.group_rows import policy_of
from coterie.cpi.drivers.openstack.kinds import host_of
from coterie.cpi.drivers.openstack.marking import mark_of_tags
from coterie.cpi.drivers.openstack.members import Members
from coterie.cpi.drivers.openstack.memos import Memo
from coterie.cpi.drivers.openstack.refusals import cloud_call


class Inspection(Members):
    @cloud_call
    def inspect_server_group(self, cid: str) -> GroupView:
        group = self.group_row(cid)
        memo = None if is_adopted(cid) else self.memos().get(cid)
        if group is None and (memo is None or memo.policy):
            return GroupView("missing", None, notes=(f"server group {cid} was deleted behind our back",))
        rows = self.member_rows(cid, group)
        resources, notes = self._resources(cid, group, memo)
        return GroupView(
            state="drifted" if notes else "live",
            policy=policy_of(group) if group else None,
            resources=tuple(resources),
            members=tuple(self._member(row) for row in rows),
            notes=tuple(notes),
        )

    def _resources(self, cid: str, group: Row | None, memo: Memo | None) -> tuple[list[GroupResource], list[str]]:
        ours = not is_adopted(cid)
        resources = [GroupResource("server_group", str(group["id"]), None, ours)] if group else []
        notes = []
        for guard in memo.guards if memo else ():
            row = self.row("security_group", guard)
            if row:
                resources.append(GroupResource("security_group", guard, None, self.our_guard(row)))
            else:
                notes.append(f"security group {guard} was deleted behind our back")
        return resources, notes

    def _member(self, row: Row) -> GroupMember:
        mark = mark_of_tags(row.get("tags") or ())
        ours = mark is not None and mark.director == self.runtime.director_uuid
        return GroupMember(str(row["id"]), host_of(row), ours)
