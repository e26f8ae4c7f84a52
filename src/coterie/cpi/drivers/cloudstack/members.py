"""VMs in server groups: who they are, what guards them, and whether the policy was kept."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.guards import Guards
from coterie.cpi.drivers.cloudstack.marking import GROUP

GONE = ("Destroyed", "Expunging", "Expunged")


class Members(Guards):
    def member_rows(self, cid: str, group: Row | None) -> list[Row]:
        """Members that the cloud shows; for a user it hides those that are destroyed and not expunged."""
        if group is None:
            return self.tagged_members(cid)
        return list(self.api.every("listVirtualMachines", affinitygroupid=group["id"]))

    def tagged_members(self, cid: str) -> list[Row]:
        """A server group without a policy has no affinity group: its members are known by a tag."""
        rows = self.api.every("listVirtualMachines", tags=[{"key": GROUP, "value": cid}])
        return [row for row in rows if row.get("state") not in GONE]

    def exchange_guards(self, cid: str, group: Row | None, old: Iterable[str], new: Iterable[str]) -> None:
        """CloudStack changes security groups of a stopped VM only, so members are restarted, one after another."""
        for row in self.member_rows(cid, group):
            has = [str(one["id"]) for one in row.get("securitygroup") or ()]
            kept = [guard for guard in has if guard not in set(old)]
            wanted = list(dict.fromkeys([*kept, *new])) or [str(self.default_guard()["id"])]
            if set(wanted) != set(has):
                self._reguarded(row, wanted)

    def _reguarded(self, row: Row, guards: list[str]) -> None:
        ran = row.get("state") == "Running"
        if ran:
            self.api.run("stopVirtualMachine", id=row["id"])
        self.api.call("updateVirtualMachine", id=row["id"], securitygroupids=guards)
        if ran:
            self.api.run("startVirtualMachine", id=row["id"])
