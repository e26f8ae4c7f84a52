"""How a VM gets into its group and out of it: a change is submitted to the one writer of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import GroupMissing, Json, is_adopted, revive
from coterie.cpi.drivers.vsphere.holders import Holders
from coterie.cpi.drivers.vsphere.marking import GROUP
from coterie.cpi.drivers.vsphere.rules import vm_rule


class Joining(Holders):
    def group_of(self, env: Mapping[str, Any]) -> str | None:
        """The group named in env.bosh.server_group_cid, looked up now: one that is gone is noticed before a VM is."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        holder = self.require_holder(cid)
        if is_adopted(cid) and not any(view.vm_group(holder.spec.name) for view in self.views().values()):
            raise GroupMissing(
                f"no cluster has a DRS VM group {holder.spec.name!r}", remedy="have the operator make it again"
            )
        return str(cid)

    def join(self, cid: str, machine: Any) -> None:
        """Returns when the VM is seen in its group, in the cluster that it is in."""
        self.describe(machine, {GROUP: cid})
        self.submit(self.cluster_of_vm(machine), {"op": "join", "group": cid, "vm": machine._moId})

    def leave(self, machine: Any, attributes: Mapping[str, str]) -> None:
        """Returns when the VM is seen out of its group; a VM without one costs no call."""
        cid = attributes.get(GROUP)
        holder = self.holder(cid) if cid else None
        cluster = self.cluster_of_vm(machine) if holder else None
        if holder is None or cluster is None:
            return
        view = self.view(cluster)
        group, rule = view.vm_group(holder.spec.name), vm_rule(view, holder.spec)
        if machine._moId in (*(group.members if group else ()), *(rule.vms if rule else ())):
            self.submit(cluster, {"op": "leave", "group": holder.cid, "vm": machine._moId})

    def cluster_of_vm(self, machine: Any) -> Any | None:
        pool = self.reader.one(machine, "resourcePool").get("resourcePool")
        return self.reader.one(pool, "owner").get("owner") if pool is not None else None

    def submit(self, cluster: Any, change: Json) -> Json:
        outcome = self.runtime.coordinator.submit(self, self.domain(cluster), change)
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})
        return outcome
