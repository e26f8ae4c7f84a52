"""VMs in server groups: who they are, and what guards them."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cpi.contract import is_adopted
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.guards import Guards
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.marking import group_tag, mark_of_tags
from coterie.cpi.drivers.openstack.ports import PortCalls


class Members(PortCalls, Guards):
    def member_rows(self, cid: str, group: Row | None) -> list[Row]:
        """Ours come in one list, by their tag; who joined without us is asked for one by one."""
        ours = {str(row["id"]): row for row in self.tagged_members(cid)}
        if group is None:
            return list(ours.values())
        found = [ours.get(str(one)) or self.row("vm", str(one)) for one in group.get("members") or ()]
        return [row for row in found if row and not is_gone(row)]

    def tagged_members(self, cid: str) -> list[Row]:
        rows = self.rows("vm", tags=group_tag(cid))
        return [row for row in rows if group_tag(cid) in (row.get("tags") or ()) and not is_gone(row)]

    def exchange_guards(self, cid: str, old: Iterable[str], new: Iterable[str]) -> None:
        """Neutron changes security groups of living ports; those that VMs have by themselves stay."""
        for row in [] if is_adopted(cid) else self.tagged_members(cid):
            mark = mark_of_tags(row.get("tags") or ())
            for port in self.marked("port", mark) if mark else ():
                has = [str(one) for one in port.get("security_groups") or ()]
                kept = [one for one in has if one not in set(old)]
                # a port without any would let nothing through; without a word of ours it would have the default one
                wanted = list(dict.fromkeys([*kept, *new])) or [str(self.board()["id"])]
                if set(wanted) != set(has):
                    self.change_port(port, {"security_groups": wanted})
