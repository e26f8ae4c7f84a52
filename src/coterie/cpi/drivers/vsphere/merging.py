"""What must be written to a cluster so that members join and leave a group. Pure.

Merged, never overwritten: new members = (observed - leaving - dead) + joining. What an administrator added survives,
and so do an administrator's rule and a group that it refers to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from coterie.cpi.drivers.vsphere.drs import ClusterView, Group, Op, Rule
from coterie.cpi.drivers.vsphere.group_spec import APART, GroupSpec
from coterie.cpi.drivers.vsphere.rules import between_vms, foreign_rules, vm_rule


@dataclass(frozen=True, slots=True)
class Turn:
    """Who joins and leaves one group now. `ours`: VMs that we know to be ours; `dead`: VMs that are gone; `owned`: the
    names of the rules that are proven ours, none other is changed; `untied`: from its hosts, so that rule goes."""

    spec: GroupSpec
    joining: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()
    untied: bool = False


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
        _host_rule(view, turn, edits)
    elif not turn.spec.adopted:
        _emptied(view, turn, group, edits)


def _merged(present: Iterable[str], turn: Turn) -> tuple[str, ...]:
    stay = [vm for vm in present if vm not in turn.leaving and vm not in turn.dead]
    return (*stay, *sorted(turn.joining - turn.dead - set(stay)))


def _vm_rule(view: ClusterView, turn: Turn, members: tuple[str, ...], edits: Edits) -> None:
    spec, rule = turn.spec, vm_rule(view, turn.spec)
    if rule is None and (spec.adopted or spec.name in view.rules or not between_vms(spec)):
        return
    if rule is not None and rule.name not in turn.owned:
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


def _host_rule(view: ClusterView, turn: Turn, edits: Edits) -> None:
    spec = turn.spec
    found = view.rules.get(spec.host_rule)
    if turn.untied and found is not None and found.name in turn.owned:
        edits.then.append(("remove", found))
    host_group = view.host_group(spec.host_group) if spec.host_group else None
    if host_group is None or turn.untied:
        return
    wanted = Rule(
        spec.host_rule,
        "hosts",
        vm_group=spec.name,
        host_group=host_group.name,
        affine=spec.affine,
        mandatory=spec.rule == "must",
    )
    if found is None:
        edits.then.append(("add", wanted))
    elif found.name in turn.owned and replace(found, key=None, enabled=True) != wanted:
        edits.then.append(("edit", replace(wanted, key=found.key, enabled=found.enabled)))


def _emptied(view: ClusterView, turn: Turn, group: Group | None, edits: Edits) -> None:
    """The last member leaves: the group goes too, since it cannot be empty; unless somebody's rule needs it."""
    edits.first += [("remove", rule) for name, rule in view.rules.items() if name in turn.owned]
    if group is not None and not foreign_rules(view, turn.spec):
        edits.then.append(("remove", group))
