"""The groups and rules of a cluster, and what must be written so that members join and leave. Pure.

Merged, never overwritten: new members = (observed - leaving - dead) + joining. What an administrator added survives,
and so does a group that an administrator's rule refers to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from coterie.cpi.vsphere.group_spec import APART, TOGETHER, GroupSpec

Op = Literal["add", "edit", "remove"]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    of_hosts: bool
    members: tuple[str, ...]
    unique_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
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


@dataclass(frozen=True, slots=True)
class ClusterView:
    name: str
    drs: bool
    groups: Mapping[str, Group]
    rules: Mapping[str, Rule]

    def vm_group(self, name: str) -> Group | None:
        """By name, or by the identifier that the vCenter gave it."""
        found = self.groups.get(name) or next((g for g in self.groups.values() if g.unique_id == name), None)
        return found if found and not found.of_hosts else None

    def host_group(self, name: str) -> Group | None:
        found = self.groups.get(name) or next((g for g in self.groups.values() if g.unique_id == name), None)
        return found if found and found.of_hosts else None

    def about(self, group: str) -> list[Rule]:
        """Rules that tie this VM group to hosts."""
        return [rule for rule in self.rules.values() if rule.vm_group == group]


@dataclass(frozen=True, slots=True)
class Turn:
    """Who joins and leaves one group now. `ours`: members that we know to be our VMs; `dead`: VMs that are gone."""

    spec: GroupSpec
    joining: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()


@dataclass(slots=True)
class Edits:
    """`first` before `then`: a group must be there before a rule names it, and unnamed before it goes."""

    first: list[tuple[Op, Group | Rule]] = field(default_factory=list)
    then: list[tuple[Op, Group | Rule]] = field(default_factory=list)


def plan(view: ClusterView, turn: Turn, edits: Edits) -> None:
    """Add to `edits` what this turn needs."""
    group = view.vm_group(turn.spec.name)
    present = group.members if group else ()
    members = _merged(present, turn)
    if members:
        if group is None:
            edits.first.append(("add", Group(turn.spec.name, False, members)))
        elif members != present:
            edits.first.append(("edit", replace(group, members=members)))
        _vm_rule(view, turn, members, edits)
        _host_rule(view, turn.spec, edits)
    elif not turn.spec.adopted:
        _emptied(view, turn.spec, group, edits)


def vm_rule(view: ClusterView, spec: GroupSpec) -> Rule | None:
    """The rule between the VMs of a group: it has the group's name."""
    rule = view.rules.get(spec.name)
    return rule if rule and rule.kind in ("apart", "together") else None


def foreign_rules(view: ClusterView, spec: GroupSpec) -> list[Rule]:
    """Administrators' rules about our group."""
    return [rule for rule in view.about(spec.name) if rule.name != spec.host_rule]


def policy_of(view: ClusterView, name: str) -> str:
    """What an operator's group promises."""
    rule = view.rules.get(name)
    if rule is None or rule.kind not in ("apart", "together"):
        return "host-affinity"
    word = "anti-affinity" if rule.kind == "apart" else "affinity"
    return word if rule.mandatory else f"soft-{word}"


def _merged(present: Iterable[str], turn: Turn) -> tuple[str, ...]:
    stay = [vm for vm in present if vm not in turn.leaving and vm not in turn.dead]
    return (*stay, *sorted(turn.joining - turn.dead - set(stay)))


def _vm_rule(view: ClusterView, turn: Turn, members: tuple[str, ...], edits: Edits) -> None:
    spec, rule = turn.spec, vm_rule(view, turn.spec)
    if rule is None and (spec.adopted or spec.policy not in (*APART, *TOGETHER)):
        return
    stay = [vm for vm in (rule.vms if rule else ()) if vm not in turn.leaving and vm not in turn.dead]
    ours = turn.joining if spec.adopted else turn.ours | turn.joining
    vms = (*stay, *(vm for vm in members if vm in ours and vm not in stay))
    if rule is None and len(vms) > 1:
        kind: Literal["apart", "together"] = "apart" if spec.policy in APART else "together"
        edits.first.append(("add", Rule(spec.name, kind, vms, mandatory=spec.mandatory)))
    elif rule is not None and len(vms) > 1 and vms != rule.vms:
        edits.first.append(("edit", replace(rule, vms=vms)))
    elif rule is not None and len(vms) < 2 and not spec.adopted:
        edits.first.append(("remove", rule))


def _host_rule(view: ClusterView, spec: GroupSpec, edits: Edits) -> None:
    host_group = view.host_group(spec.host_group) if spec.host_group else None
    if host_group is None:
        return
    wanted = Rule(
        spec.host_rule,
        "hosts",
        vm_group=spec.name,
        host_group=host_group.name,
        affine=spec.affine,
        mandatory=spec.rule == "must",
    )
    found = view.rules.get(spec.host_rule)
    if found is None:
        edits.then.append(("add", wanted))
    elif replace(found, key=None, enabled=True) != wanted:
        edits.then.append(("edit", replace(wanted, key=found.key, enabled=found.enabled)))


def _emptied(view: ClusterView, spec: GroupSpec, group: Group | None, edits: Edits) -> None:
    """The last member leaves: the group goes too, since it cannot be empty; unless somebody's rule needs it."""
    rules = [vm_rule(view, spec), view.rules.get(spec.host_rule)]
    edits.first += [("remove", rule) for rule in rules if rule is not None]
    if group is not None and not foreign_rules(view, spec):
        edits.then.append(("remove", group))
