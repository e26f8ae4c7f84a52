"""How a VM gets into its group: in the call that deploys it; and whether the cloud kept its promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.cloudstack.affinity import group_missing, policy_of
from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.members import GONE, Members
from coterie.cpi.contract import VMCreationFailed, is_adopted


@dataclass(frozen=True, slots=True)
class Place:
    """The group that a new VM goes into; `affinity` None where it has no policy."""

    cid: str
    affinity: str | None
    policy: str | None
    guards: tuple[str, ...]


class Joining(Members):
    def place(self, env: Mapping[str, Any]) -> Place | None:
        """The group named in env.bosh.server_group_cid, looked up now: a group that is gone is noticed here."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        group = self.affinity_group(str(cid))
        memo = None if is_adopted(cid) else self.memos().get(cid)
        if group is None and (memo is None or memo.policy):
            raise group_missing(cid)
        guards = memo.guards if memo else ()
        return Place(cid, str(group["id"]) if group else None, policy_of(group) if group else None, guards)

    def require_membership(self, vm: Row, place: Place | None) -> None:
        """Deploys at the same time can break a strict policy (apache/cloudstack#9110), so it is looked at after each.

        Of two that must not share a host the younger yields, so that not both do.
        """
        if place is None or place.affinity is None:
            return
        if place.affinity not in [one["id"] for one in vm.get("affinitygroup") or ()]:
            raise VMCreationFailed(
                f"VM {vm['id']} runs, but is not in its affinity group {place.cid}",
                why="the group vanished while the VM was deployed",
                remedy="repeat: a group that is gone is told then",
            )
        if place.policy not in ("anti-affinity", "affinity") or not vm.get("hostid"):
            return
        others = [row for row in self.api.every("listVirtualMachines", affinitygroupid=place.affinity) if _runs(row)]
        wrong = [row for row in others if row["id"] != vm["id"] and _breaks(place.policy, row, vm)]
        if any(_age(row) < _age(vm) for row in wrong):
            raise VMCreationFailed(
                f"CloudStack broke policy {place.policy} of server group {place.cid}",
                why=f"VM {vm['id']} is on host {vm.get('hostname')}; so or elsewhere: {wrong[0]['id']}",
                remedy="repeat; with fewer VMs of the group at once",
                retryable=True,
            )


def _runs(row: Row) -> bool:
    return bool(row.get("hostid")) and row.get("state") not in GONE


def _breaks(policy: str | None, row: Row, vm: Row) -> bool:
    same = row["hostid"] == vm["hostid"]
    return same if policy == "anti-affinity" else not same


def _age(row: Row) -> tuple[str, str]:
    return str(row.get("created", "")), str(row["id"])
