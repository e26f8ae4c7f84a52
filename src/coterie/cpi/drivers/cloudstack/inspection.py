"""What the cloud holds behind a server-group CID now, and how that differs from what was asked."""

from __future__ import annotations

from coterie.cpi.contract import GroupMember, GroupResource, GroupView, is_adopted
from coterie.cpi.drivers.cloudstack.affinity import policy_of
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.marking import mark_of
from coterie.cpi.drivers.cloudstack.members import GONE, Members
from coterie.cpi.drivers.cloudstack.memos import Memo
from coterie.cpi.drivers.cloudstack.refusals import cloud_call


class Inspection(Members):
    @cloud_call
    def inspect_server_group(self, cid: str) -> GroupView:
        group = self.affinity_group(cid)
        memo = None if is_adopted(cid) else self.memos().get(cid)
        if group is None and (memo is None or memo.policy):
            return GroupView("missing", None, notes=(f"server group {cid} was deleted behind our back",))
        rows = self.member_rows(cid, group)
        resources, notes = self._resources(group, memo)
        notes += _unguarded(rows, memo) + _hidden(rows, group) + self._unlike_asked(group)
        return GroupView(
            state="drifted" if notes else "live",
            policy=policy_of(group) if group else None,
            resources=tuple(resources),
            members=tuple(self._member(row) for row in rows),
            notes=tuple(notes),
        )

    def _resources(self, group: Row | None, memo: Memo | None) -> tuple[list[GroupResource], list[str]]:
        resources = [GroupResource("server_group", str(group["id"]), None, self.ours(group))] if group else []
        notes = []
        for guard in memo.guards if memo else ():
            row = self.row("listSecurityGroups", guard)
            if row:
                resources.append(GroupResource("security_group", guard, None, self.our_guard(row)))
            else:
                notes.append(f"security group {guard} was deleted behind our back")
        return resources, notes

    def _unlike_asked(self, group: Row | None) -> list[str]:
        """The description says what was asked; the type is what the cloud does."""
        if group is None or not self.ours(group):
            return []
        asked = str(group.get("description", "")).split()[1:2]
        return [] if asked == [policy_of(group)] else [f"the group's type is {group['type']}, asked was {asked}"]

    def _member(self, row: Row) -> GroupMember:
        ours = mark_of(row, self.runtime.director_uuid) is not None
        return GroupMember(str(row["id"]), row.get("hostname"), ours)


def _unguarded(rows: list[Row], memo: Memo | None) -> list[str]:
    wanted = set(memo.guards if memo else ())
    notes = []
    for row in rows:
        for guard in sorted(wanted - {str(one["id"]) for one in row.get("securitygroup") or ()}):
            notes.append(f"VM {row['id']} lacks security group {guard}")
    return notes


def _hidden(rows: list[Row], group: Row | None) -> list[str]:
    """Who is destroyed is a member until it is expunged, seen or not."""
    waiting = {str(row["id"]) for row in rows if row.get("state") in GONE}
    seen = {str(row["id"]) for row in rows}
    waiting |= {one for one in (group or {}).get("virtualmachineIds") or () if one not in seen}
    return [f"VM {one} is destroyed and leaves when CloudStack expunges it" for one in sorted(waiting)]
