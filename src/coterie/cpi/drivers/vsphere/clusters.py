"""Clusters as the vCenter has them: their DRS groups and rules read by narrow paths, and written in one spec."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.attributes import Attributes
from coterie.cpi.drivers.vsphere.drs import ClusterView, Group, Op, Rule
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.reading import Row

_PATHS = ("name", "configurationEx.group", "configurationEx.rule", "configurationEx.drsConfig")
_BUSY_S = 60.0


class Clusters(Attributes):
    def view(self, cluster: Any) -> ClusterView:
        return _view(self.reader.one(cluster, *_PATHS))

    def views(self) -> dict[str, ClusterView]:
        """All zones' clusters in one call, keyed as the zones are."""
        zones = self.zones()
        unique = list({zone.cluster._moId: zone.cluster for zone in zones.values()}.values())
        rows = {row.ref: _view(row) for row in self.reader.several(unique, sdk.vim.ClusterComputeResource, _PATHS)}
        return {name: rows[zone.cluster] for name, zone in zones.items()}

    def domain(self, cluster: Any) -> str:
        """One writer per vCenter and cluster, however many clouds are configured on it."""
        return f"vsphere:{self.link.content.about.instanceUuid}/{cluster._moId}"

    def cluster_of(self, domain: str) -> Any:
        return self.link.reference(sdk.vim.ClusterComputeResource, domain.rpartition("/")[2])

    def write(self, cluster: Any, edits: Sequence[tuple[Op, Group | Rule]]) -> None:
        spec = sdk.vim.cluster.ConfigSpecEx()
        spec.groupSpec = [self._group_change(op, one) for op, one in edits if isinstance(one, Group)]
        spec.rulesSpec = [self._rule_change(op, one) for op, one in edits if isinstance(one, Rule)]
        self.tasks.run(cluster.ReconfigureComputeResource_Task, spec, True)

    def wait_for_others(self, cluster: Any) -> None:
        """A writer before us may have left a reconfiguration running: it must not end after we have looked."""
        give_up = time.monotonic() + _BUSY_S
        while time.monotonic() < give_up:
            running = self.reader.one(cluster, "recentTask").get("recentTask") or []
            rows = self.reader.living(running, sdk.vim.Task, ["info.state", "info.descriptionId"])
            if not any(_reconfigures(row) for row in rows):
                return
            time.sleep(0.2)

    def by_cluster(self) -> dict[str, Zone]:
        """Each cluster once, by the key of its first zone."""
        found: dict[str, tuple[str, Zone]] = {}
        for key, zone in self.zones().items():
            found.setdefault(zone.cluster._moId, (key, zone))
        return dict(found.values())

    def _group_change(self, op: Op, one: Group) -> Any:
        cluster = sdk.vim.cluster
        if op == "remove":
            return cluster.GroupSpec(operation=op, removeKey=one.name)
        vms = [self.link.reference(sdk.vim.VirtualMachine, moid) for moid in one.members]
        return cluster.GroupSpec(operation=op, info=cluster.VmGroup(name=one.name, vm=vms))

    def _rule_change(self, op: Op, one: Rule) -> Any:
        cluster = sdk.vim.cluster
        if op == "remove":
            return cluster.RuleSpec(operation=op, removeKey=one.key)
        shared = {"name": one.name, "enabled": one.enabled, "mandatory": one.mandatory, "userCreated": True}
        if one.key is not None:
            shared["key"] = one.key
        if one.kind == "hosts":
            side = "affineHostGroupName" if one.affine else "antiAffineHostGroupName"
            info = cluster.VmHostRuleInfo(**shared, vmGroupName=one.vm_group, **{side: one.host_group})
        else:
            vms = [self.link.reference(sdk.vim.VirtualMachine, moid) for moid in one.vms]
            kind = cluster.AntiAffinityRuleSpec if one.kind == "apart" else cluster.AffinityRuleSpec
            info = kind(**shared, vm=vms)
        return cluster.RuleSpec(operation=op, info=info)


def _view(row: Row) -> ClusterView:
    groups = [_read_group(one) for one in row.get("configurationEx.group") or ()]
    rules = [_read_rule(one) for one in row.get("configurationEx.rule") or ()]
    drs = row.get("configurationEx.drsConfig")
    return ClusterView(
        str(row.get("name")),
        bool(drs.enabled) if drs is not None else False,
        {group.name: group for group in groups},
        {rule.name: rule for rule in rules},
    )


def _read_group(one: Any) -> Group:
    of_hosts = isinstance(one, sdk.vim.cluster.HostGroup)
    members = one.host if of_hosts else getattr(one, "vm", None)
    return Group(str(one.name), of_hosts, tuple(ref._moId for ref in members or ()), one.uniqueID or None)


def _read_rule(one: Any) -> Rule:
    cluster = sdk.vim.cluster
    shared = {"mandatory": bool(one.mandatory), "enabled": one.enabled is not False, "key": one.key}
    if isinstance(one, cluster.VmHostRuleInfo):
        affine = bool(one.affineHostGroupName)
        hosts = one.affineHostGroupName if affine else one.antiAffineHostGroupName
        return Rule(one.name, "hosts", (), one.vmGroupName, hosts, affine, **shared)
    if isinstance(one, (cluster.AntiAffinityRuleSpec, cluster.AffinityRuleSpec)):
        vms = tuple(ref._moId for ref in one.vm or ())
        return Rule(one.name, "apart" if isinstance(one, cluster.AntiAffinityRuleSpec) else "together", vms, **shared)
    return Rule(one.name, "other", **shared)


def _reconfigures(row: Row) -> bool:
    running = row.get("info.state") in ("running", "queued")
    return running and "reconfigure" in str(row.get("info.descriptionId")).lower()
