"""DRS groups and rules of a cluster: how they are read and written, which rules are about a server group, which of
them are ours, and what must be written so that members join and leave.

Rules carry no mark, and a name that a user chose may be an administrator's too, so a name alone proves nothing.
Members are merged, never overwritten: what an administrator added survives, and so do an administrator's rule and a
group that it refers to.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from coterie.cpi.contract import Throttled, Unavailable
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.client import Client, Row
from coterie.cpi.drivers.vsphere.group_records import HOSTS, GroupSpec
from coterie.cpi.drivers.vsphere.placement import Placement, ZoneCluster
from coterie.slotted import dataclass, field, replace

Op = Literal["add", "edit", "remove"]
# whole: groups, rules and DRS belong to a subclass of its declared type, and a vCenter refuses paths into a subclass
_PATHS = ("name", "configurationEx")
_BUSY_S = 60.0


@dataclass(frozen=True, slots=True)
class DrsGroup:
    """`members`: ids of VMs or, `of_hosts`, of hosts. `unique_id`: the identifier that the vCenter gave it."""

    name: str
    of_hosts: bool
    members: tuple[str, ...]
    unique_id: str | None = None


@dataclass(frozen=True, slots=True)
class DrsRule:
    """`kind`: apart and together are between VMs, hosts ties a VM group to a host group, other is not ours."""

    name: str
    kind: Literal["apart", "together", "hosts", "other"]
    vms: tuple[str, ...] = ()
    vm_group: str | None = None
    host_group: str | None = None
    affine: bool = True
    mandatory: bool = False
    enabled: bool = True
    key: int | None = None


Edit = tuple[Op, DrsGroup | DrsRule]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster's groups and rules by name, as they were read."""

    name: str
    drs: bool
    groups: Mapping[str, DrsGroup]
    rules: Mapping[str, DrsRule]

    def vm_group(self, name: str) -> DrsGroup | None:
        return self._group(name, of_hosts=False)

    def host_group(self, name: str) -> DrsGroup | None:
        return self._group(name, of_hosts=True)

    def members(self, spec: GroupSpec) -> tuple[str, ...]:
        group = self.vm_group(spec.name)
        return group.members if group else ()

    def tying(self, group: str) -> list[DrsRule]:
        """Rules that tie this VM group to hosts."""
        return [rule for rule in self.rules.values() if rule.vm_group == group]

    def vm_rule(self, spec: GroupSpec) -> DrsRule | None:
        """The rule between the VMs of a server group: it has the group's name."""
        rule = self.rules.get(spec.name) if spec.has_vm_rule else None
        return rule if rule and rule.kind in ("apart", "together") else None

    def host_rule(self, spec: GroupSpec) -> DrsRule | None:
        """The rule that ties a server group to the hosts it was requested for."""
        rule = self.rules.get(spec.host_rule) if spec.host_group else None
        return rule if rule and rule.vm_group == spec.name else None

    def foreign_rules(self, spec: GroupSpec) -> list[DrsRule]:
        """Administrators' rules about a server group."""
        own = self.host_rule(spec)
        return [rule for rule in self.tying(spec.name) if own is None or rule.name != own.name]

    def about(self, spec: GroupSpec) -> tuple[DrsGroup | None, list[DrsRule]]:
        """All that a change of a server group is planned by."""
        names = {spec.name, spec.host_rule}
        return self.vm_group(spec.name), [
            rule for rule in self.rules.values() if rule.name in names or rule.vm_group == spec.name
        ]

    def read_back(self, cid: str, names: Iterable[str] = ()) -> GroupSpec | None:
        """What was requested of a server group, by its DRS group and rules alone. `names`: it is known to have had."""
        bearing = [name for name in (*self.groups, *self.rules) if cid in name]
        found = [name for name in (*names, *bearing) if name in self.groups or name in self.rules]
        if not found:
            return None
        name = found[0] if found[0] in self.groups else found[0].removesuffix(HOSTS)
        spec, policy = GroupSpec(None, name), self.policy(name)
        spec = replace(spec, policy=policy)
        tie = self.rules.get(spec.host_rule)
        if tie is None or tie.kind != "hosts":
            return spec
        return replace(spec, host_group=tie.host_group, rule="must" if tie.mandatory else "should", affine=tie.affine)

    def policy(self, name: str) -> str:
        """What an operator's group promises."""
        rule = self.rules.get(name)
        if rule is None or rule.kind not in ("apart", "together"):
            return "host-affinity"
        word = "anti-affinity" if rule.kind == "apart" else "affinity"
        return word if rule.mandatory else f"soft-{word}"

    def owned_rules(self, cid: str, spec: GroupSpec, ours: frozenset[str], known: bool) -> frozenset[str]:
        """Names of the rules that we may change. `ours`: VMs that are ours or gone; `known`: the group was made here.
        An operator's rule is ours to change as far as its group was adopted."""
        between, hosts = self.vm_rule(spec), self.host_rule(spec)
        if cid in spec.name and spec.host_group:
            hosts = self.rules.get(spec.host_rule)  # the name has our CID, so the rule is ours whatever it says now
        elif cid not in spec.name and not spec.adopted:
            between = between if between and known and set(between.vms) <= ours else None
            hosts = hosts if known else None
        return frozenset(rule.name for rule in (between, hosts) if rule is not None)

    def conflicts(self, spec: GroupSpec, owned: frozenset[str]) -> list[str]:
        """Names that a server group's rules need and that rules of others have."""
        if spec.adopted:
            return []
        needed = [spec.name] * spec.has_vm_rule + [spec.host_rule] * bool(spec.host_group)
        return [name for name in needed if name in self.rules and name not in owned]

    def _group(self, name: str, of_hosts: bool) -> DrsGroup | None:
        """By name, or by the vCenter's identifier."""
        found = self.groups.get(name) or next((one for one in self.groups.values() if one.unique_id == name), None)
        return found if found and found.of_hosts == of_hosts else None


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What one batch changes in a server group. `ours`: VMs that are known to be ours; `gone`: VMs that are not there
    any more; `owned`: names of the rules that are proven ours, no other is changed; `untie`: the rule that ties the
    group to hosts goes; `mend`: what others changed in rules of ours is changed back; `delete`: the group goes, even
    where an administrator's rule names it."""

    spec: GroupSpec
    joining: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()
    untie: bool = False
    mend: bool = False
    delete: bool = False

    def stay(self, vms: Sequence[str]) -> list[str]:
        return [vm for vm in vms if vm not in self.leaving and vm not in self.gone]


@dataclass(slots=True)
class Edits:
    """`first` before `then`: a group must be there before a rule names it, and unnamed before it goes."""

    first: list[Edit] = field(default_factory=list)
    then: list[Edit] = field(default_factory=list)


def plan_edits(view: ClusterView, change: MemberChange, edits: Edits) -> None:
    """Add to `edits` what the change of one server group needs."""
    group = view.vm_group(change.spec.name)
    present = group.members if group else ()
    stay = change.stay(present)
    members = (*stay, *sorted(change.joining - change.gone - set(stay)))
    if members:
        if group is None:
            edits.first.append(("add", DrsGroup(change.spec.name, False, members)))
        elif members != present:
            edits.first.append(("edit", replace(group, members=members)))
        _plan_vm_rule(view, change, members, edits)
        _plan_host_rule(view, change, edits)
    elif group is not None and present and _stays_empty(view, change):
        edits.first.append(("edit", replace(group, members=())))
        _remove_own_rules(view, change, edits)
    elif not change.spec.adopted:
        _remove_own_rules(view, change, edits)
        if group is not None and not _stays_empty(view, change):
            edits.then.append(("remove", group))


def _stays_empty(view: ClusterView, change: MemberChange) -> bool:
    """Whether the group is kept without members: an operator's, or one that an administrator's rule names."""
    return change.spec.adopted or (bool(view.foreign_rules(change.spec)) and not change.delete)


def _remove_own_rules(view: ClusterView, change: MemberChange, edits: Edits) -> None:
    if not change.spec.adopted:
        edits.first += [("remove", rule) for name, rule in view.rules.items() if name in change.owned]


def _plan_vm_rule(view: ClusterView, change: MemberChange, members: tuple[str, ...], edits: Edits) -> None:
    """A rule that is missing is added, an operator's follows the members of its adopted group, our own follows ours."""
    spec, rule = change.spec, view.vm_rule(change.spec)
    if rule is None:
        if spec.has_vm_rule and not spec.adopted and spec.name not in view.rules:
            _add_vm_rule(change, members, edits)
    elif rule.name in change.owned:
        if spec.adopted:
            _follow_in_adopted_rule(rule, change, members, edits)
        else:
            _follow_in_own_rule(rule, change, members, edits)


def _add_vm_rule(change: MemberChange, members: tuple[str, ...], edits: Edits) -> None:
    """Only between VMs that are ours, and only once there are two: the vCenter refuses a rule about one VM."""
    spec = change.spec
    vms = tuple(vm for vm in members if vm in change.ours | change.joining)
    if len(vms) > 1:
        edits.first.append(("add", DrsRule(spec.name, spec.vm_rule_kind, vms, mandatory=spec.mandatory)))


def _follow_in_adopted_rule(rule: DrsRule, change: MemberChange, members: tuple[str, ...], edits: Edits) -> None:
    """Never removed: it is the operator's."""
    vms = _rule_vms(rule, change, members, change.joining)
    if len(vms) > 1 and vms != rule.vms:
        edits.first.append(("edit", replace(rule, vms=vms)))


def _follow_in_own_rule(rule: DrsRule, change: MemberChange, members: tuple[str, ...], edits: Edits) -> None:
    vms = _rule_vms(rule, change, members, change.ours | change.joining)
    wanted = replace(rule, vms=vms)
    if change.mend:
        wanted = replace(wanted, kind=change.spec.vm_rule_kind, mandatory=change.spec.mandatory, enabled=True)
    if len(vms) < 2:
        edits.first.append(("remove", rule))
    elif wanted.kind != rule.kind:  # an edit cannot change what a rule is
        edits.first.append(("remove", rule))  # and added when it is planned again
    elif wanted != rule:
        edits.first.append(("edit", wanted))


def _rule_vms(rule: DrsRule, change: MemberChange, members: tuple[str, ...], ours: frozenset[str]) -> tuple[str, ...]:
    stay = change.stay(rule.vms)
    return (*stay, *(vm for vm in members if vm in ours and vm not in stay))


def _plan_host_rule(view: ClusterView, change: MemberChange, edits: Edits) -> None:
    spec, found = change.spec, view.rules.get(change.spec.host_rule)
    if change.untie:
        if found is not None and found.name in change.owned:
            edits.then.append(("remove", found))
        return
    host_group = view.host_group(spec.host_group) if spec.host_group else None
    if host_group is None:
        return
    wanted = DrsRule(
        spec.host_rule,
        "hosts",
        vm_group=spec.name,
        host_group=host_group.name,
        affine=spec.affine,
        mandatory=spec.rule == "must",
    )
    if found is None:
        edits.then.append(("add", wanted))
    elif found.name in change.owned:
        wanted = replace(wanted, key=found.key, enabled=change.mend or found.enabled)
        if wanted != found:
            edits.then.append(("edit", wanted))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Reads the groups and rules of clusters, and writes them in one spec."""

    client: Client
    placement: Placement

    def view(self, cluster: Any) -> ClusterView:
        return _view(self.client.read(cluster, *_PATHS))

    def views(self) -> dict[str, ClusterView]:
        """All zones' clusters in one call, with the keys of `Placement.clusters`."""
        clusters = self.placement.clusters
        unique = list({one.ref._moId: one.ref for one in clusters.values()}.values())
        rows = self.client.read_all(unique, sdk.vim.ClusterComputeResource, _PATHS)
        views = {row.ref: _view(row) for row in rows}
        return {key: views[one.ref] for key, one in clusters.items()}

    def unique(self) -> dict[str, ZoneCluster]:
        """Each cluster once, by the key of its first zone."""
        found: dict[str, tuple[str, ZoneCluster]] = {}
        for key, one in self.placement.clusters.items():
            found.setdefault(one.ref._moId, (key, one))
        return dict(found.values())

    def domain(self, cluster: Any) -> str:
        """One writer per vCenter and cluster, however many clouds are configured on it."""
        return f"vsphere:{self.client.content.about.instanceUuid}/{cluster._moId}"

    def of_domain(self, domain: str) -> Any:
        return self.client.reference(sdk.vim.ClusterComputeResource, domain.rpartition("/")[2])

    def write(self, cluster: Any, edits: Sequence[Edit]) -> list[ClusterView]:
        """The views that were read while the vCenter was at it: what another client wrote after our last look and
        before our own write was done is in none but these."""
        seen: list[ClusterView] = []
        spec = sdk.vim.cluster.ConfigSpecEx()
        spec.groupSpec = [self._group_spec(op, one) for op, one in edits if isinstance(one, DrsGroup)]
        spec.rulesSpec = [self._rule_spec(op, one) for op, one in edits if isinstance(one, DrsRule)]

        def look() -> None:
            with suppress(Unavailable, Throttled):
                seen.append(self.view(cluster))

        self.client.run(cluster.ReconfigureComputeResource_Task, spec, True, between=look)
        return seen

    def wait_until_idle(self, cluster: Any) -> None:
        """The writer before us may have left a reconfiguration running: it must not end after we have looked."""
        deadline = time.monotonic() + _BUSY_S
        while time.monotonic() < deadline:
            if not self.client.is_busy(cluster, "reconfigure"):
                return
            time.sleep(0.2)

    def _group_spec(self, op: Op, group: DrsGroup) -> Any:
        cluster = sdk.vim.cluster
        if op == "remove":
            return cluster.GroupSpec(operation=op, removeKey=group.name)
        return cluster.GroupSpec(operation=op, info=cluster.VmGroup(name=group.name, vm=self._vms(group.members)))

    def _rule_spec(self, op: Op, rule: DrsRule) -> Any:
        cluster = sdk.vim.cluster
        if op == "remove":
            return cluster.RuleSpec(operation=op, removeKey=rule.key)
        shared = {"name": rule.name, "enabled": rule.enabled, "mandatory": rule.mandatory, "userCreated": True}
        if rule.key is not None:
            shared["key"] = rule.key
        if rule.kind == "hosts":
            side = "affineHostGroupName" if rule.affine else "antiAffineHostGroupName"
            info = cluster.VmHostRuleInfo(**shared, vmGroupName=rule.vm_group, **{side: rule.host_group})
        else:
            kind = cluster.AntiAffinityRuleSpec if rule.kind == "apart" else cluster.AffinityRuleSpec
            info = kind(**shared, vm=self._vms(rule.vms))
        return cluster.RuleSpec(operation=op, info=info)

    def _vms(self, moids: Sequence[str]) -> list[Any]:
        return [self.client.reference(sdk.vim.VirtualMachine, moid) for moid in moids]


def _view(row: Row) -> ClusterView:
    config = row.get("configurationEx")
    groups = [_read_group(one) for one in getattr(config, "group", None) or ()]
    rules = [_read_rule(one) for one in getattr(config, "rule", None) or ()]
    drs = getattr(config, "drsConfig", None)
    return ClusterView(
        str(row.get("name")),
        bool(drs.enabled) if drs is not None else False,
        {group.name: group for group in groups},
        {rule.name: rule for rule in rules},
    )


def _read_group(info: Any) -> DrsGroup:
    of_hosts = isinstance(info, sdk.vim.cluster.HostGroup)
    members = info.host if of_hosts else getattr(info, "vm", None)
    return DrsGroup(str(info.name), of_hosts, tuple(ref._moId for ref in members or ()), info.uniqueID or None)


def _read_rule(info: Any) -> DrsRule:
    cluster = sdk.vim.cluster
    shared = {"mandatory": bool(info.mandatory), "enabled": info.enabled is not False, "key": info.key}
    if isinstance(info, cluster.VmHostRuleInfo):
        affine = bool(info.affineHostGroupName)
        hosts = info.affineHostGroupName if affine else info.antiAffineHostGroupName
        return DrsRule(info.name, "hosts", (), info.vmGroupName, hosts, affine, **shared)
    if isinstance(info, (cluster.AntiAffinityRuleSpec, cluster.AffinityRuleSpec)):
        kind: Literal["apart", "together"] = "apart" if isinstance(info, cluster.AntiAffinityRuleSpec) else "together"
        return DrsRule(info.name, kind, tuple(ref._moId for ref in info.vm or ()), **shared)
    return DrsRule(info.name, "other", **shared)
