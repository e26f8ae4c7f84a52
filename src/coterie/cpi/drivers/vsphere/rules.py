"""The rules of a cluster that have to do with a group, and which of them are ours. Pure.

Rules carry no mark. A name that a user chose may be an administrator's too, so a name alone proves nothing.
"""

from __future__ import annotations

from coterie.cpi.drivers.vsphere.drs import ClusterView, Rule
from coterie.cpi.drivers.vsphere.group_spec import APART, TOGETHER, GroupSpec


def between_vms(spec: GroupSpec) -> bool:
    """Whether the policy needs a rule between the VMs; an operator's group may have one in any case."""
    return spec.adopted or spec.policy in (*APART, *TOGETHER)


def vm_rule(view: ClusterView, spec: GroupSpec) -> Rule | None:
    """The rule between the VMs of a group: it has the group's name."""
    rule = view.rules.get(spec.name) if between_vms(spec) else None
    return rule if rule and rule.kind in ("apart", "together") else None


def host_rule(view: ClusterView, spec: GroupSpec) -> Rule | None:
    """The rule that ties the group to hosts, where we were asked to make one."""
    rule = view.rules.get(spec.host_rule) if spec.host_group else None
    return rule if rule and rule.vm_group == spec.name else None


def owned(view: ClusterView, cid: str, spec: GroupSpec, ours: frozenset[str], known: bool) -> frozenset[str]:
    """The names of those rules that we may change. `ours`: VMs that are ours or gone; `known`: the group was made
    here. An operator's rule is ours to change as far as its group was adopted."""
    between, hosts = vm_rule(view, spec), host_rule(view, spec)
    if cid in spec.name and spec.host_group:
        hosts = view.rules.get(spec.host_rule)  # nobody else makes such a name, whatever the rule says now
    elif not (cid in spec.name or spec.adopted):
        between = between if between and known and set(between.vms) <= ours else None
        hosts = hosts if known else None
    return frozenset(rule.name for rule in (between, hosts) if rule is not None)


def in_the_way(view: ClusterView, spec: GroupSpec, owned_names: frozenset[str]) -> list[str]:
    """Names that the group's rules need and that somebody else's rules have."""
    if spec.adopted:
        return []
    needed = [spec.name] * between_vms(spec) + [spec.host_rule] * bool(spec.host_group)
    return [name for name in needed if name in view.rules and name not in owned_names]


def foreign_rules(view: ClusterView, spec: GroupSpec) -> list[Rule]:
    """Administrators' rules about our group."""
    own = host_rule(view, spec)
    return [rule for rule in view.about(spec.name) if own is None or rule.name != own.name]


def policy_of(view: ClusterView, name: str) -> str:
    """What an operator's group promises."""
    rule = view.rules.get(name)
    if rule is None or rule.kind not in ("apart", "together"):
        return "host-affinity"
    word = "anti-affinity" if rule.kind == "apart" else "affinity"
    return word if rule.mandatory else f"soft-{word}"
