"""How a VM gets into its group: in the call that deploys it; and whether the cloud kept its promise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import VMCreationFailed, is_adopted
from coterie.cpi.drivers.cloudstack.affinity import group_missing, policy_of
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, mark_of, tags_of
from coterie.cpi.drivers.cloudstack.members import GONE, Members


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
        """Deploys at once can break a strict policy (apache/cloudstack#9110), so it is looked at after each."""
        if place is None or place.affinity is None:
            return
        if place.affinity not in [one["id"] for one in vm.get("affinitygroup") or ()]:
            raise VMCreationFailed(
                f"VM {vm['id']} runs, but is not in its affinity group {place.cid}",
                why="the group vanished while the VM was deployed",
                remedy="repeat: a group that is gone is told then",
            )
        if place.policy in ("anti-affinity", "affinity") and vm.get("hostid"):
            self._require_promise(vm, place)

    def _require_promise(self, vm: Row, place: Place) -> None:
        """Of two that must not be so, the younger yields, so that not both do; but who has passed this look already
        never looks again, so to such a one the elder yields too. One that is still on its way is waited for."""
        deadline, rest = time.monotonic() + self.settings.settle_s, self.settings.poll_s
        while wrong := self._breakers(vm, place):
            undecided = [row for row in wrong if _age(row) > _age(vm) and self._on_its_way(row)]
            if len(undecided) < len(wrong) or time.monotonic() >= deadline:
                raise VMCreationFailed(
                    f"CloudStack broke policy {place.policy} of server group {place.cid}",
                    why=f"VM {vm['id']} is on host {vm.get('hostname')}; so or elsewhere: {wrong[0]['id']}",
                    remedy="repeat; with fewer VMs of the group at once",
                    retryable=True,
                )
            time.sleep(rest)

    def _breakers(self, vm: Row, place: Place) -> list[Row]:
        rows = [row for row in self.api.every("listVirtualMachines", affinitygroupid=place.affinity) if _runs(row)]
        return [row for row in rows if row["id"] != vm["id"] and _breaks(place.policy, row, vm)]

    def _on_its_way(self, row: Row) -> bool:
        """Ours, and not tagged yet: tags come after this look."""
        return mark_of(row, self.runtime.director_uuid) is not None and DIRECTOR not in tags_of(row)


def _runs(row: Row) -> bool:
    return bool(row.get("hostid")) and row.get("state") not in GONE


def _breaks(policy: str | None, row: Row, vm: Row) -> bool:
    same = row["hostid"] == vm["hostid"]
    return same if policy == "anti-affinity" else not same


def _age(row: Row) -> tuple[str, str]:
    """The cloud tells whole seconds, so the id decides among those of one second."""
    return str(row.get("created", "")), str(row["id"])
