"""What a batch of changes finds before it is written: who can have what they asked, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import CpiError, GroupInUse, Json, NameTaken, VMNotFound
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.holders import Holder, Holders, group_missing
from coterie.cpi.drivers.vsphere.marking import GROUP, vm_mark
from coterie.cpi.drivers.vsphere.merging import Turn
from coterie.cpi.drivers.vsphere.reading import Row
from coterie.cpi.drivers.vsphere.rules import foreign_rules, in_the_way, owned, vm_rule

JOINS = ("join", "restore")


@dataclass(frozen=True, slots=True)
class Look:
    """One group's part of a batch. `refused`: by the change's number."""

    holder: Holder
    turn: Turn
    refused: dict[int, CpiError] = field(default_factory=dict)


class Looks(Holders):
    def look(self, view: ClusterView, cluster: Any, cid: str, mine: dict[int, Json]) -> Look | CpiError:
        """`mine`: the changes of this group; an error if none of them can be."""
        holder = self.holder(cid)
        if holder is None:
            return group_missing(cid, "nothing in the vCenter remembers it")
        group, rule = view.vm_group(holder.spec.name), vm_rule(view, holder.spec)
        present, ruled = set(group.members if group else ()), set(rule.vms if rule else ())
        joining, leaving = _named(mine, JOINS), _named(mine, ("leave",))
        living, ours = self._living(cid, present | joining | ruled)
        gone = frozenset((present | joining | ruled) - living)
        known = cluster._moId in holder.live or bool(ours & present - joining)
        known = known or (cluster._moId in holder.making and present <= ours | gone)
        turn = Turn(
            holder.spec,
            frozenset(joining & living),
            frozenset(leaving),
            gone,
            frozenset(ours),
            owned(view, cid, holder.spec, gone | ours | leaving, known),
            untied=any(change["op"] == "untie" for change in mine.values()),
        )
        closed = _closed(view, cluster, holder, turn, known, mine) if joining else None
        return closed or _guarded(view, holder, turn, known, mine)

    def _living(self, cid: str, moids: set[str]) -> tuple[set[str], set[str]]:
        """Which of these VMs are there, and which of them are this Director's."""
        refs = [self.link.reference(sdk.vim.VirtualMachine, moid) for moid in sorted(moids)]
        rows = self.reader.living(refs, sdk.vim.VirtualMachine, ["name", "config.instanceUuid", "customValue"])
        return {row.ref._moId for row in rows}, {row.ref._moId for row in rows if self._is_ours(cid, row)}

    def _is_ours(self, cid: str, row: Row) -> bool:
        """By its mark; one that was renamed, by the group that we wrote on it."""
        name, found = str(row.get("name")), str(row.get("config.instanceUuid"))
        if vm_mark(name, found, self.runtime.director_uuid):
            return True
        return self.described(row.get("customValue")).get(GROUP) == cid


def _named(mine: dict[int, Json], ops: tuple[str, ...]) -> set[str]:
    return {str(change["vm"]) for change in mine.values() if change["op"] in ops}


def _closed(
    view: ClusterView, cluster: Any, holder: Holder, turn: Turn, known: bool, mine: dict[int, Json]
) -> CpiError | None:
    """Why nobody can join this group here."""
    spec = holder.spec
    group = view.vm_group(spec.name)
    if group is None and spec.adopted:
        return group_missing(holder.cid, f"cluster {view.name} has no DRS VM group {spec.name!r}")
    if group is None and cluster._moId in holder.live and not _named(mine, ("restore",)):
        return group_missing(holder.cid, f"its DRS VM group {spec.name!r} was removed or renamed in {view.name}")
    unmistakable = holder.cid in spec.name or spec.adopted or known
    if group is not None and not unmistakable:
        return NameTaken(
            f"cluster {view.name} has a DRS group {spec.name!r} that is not ours",
            remedy="use another vm_group, or say placement.adopt: true to use it",
        )
    taken = in_the_way(view, spec, turn.owned)
    if taken:
        return NameTaken(
            f"cluster {view.name} has a DRS rule {taken[0]!r} that is not ours",
            why="we did not make it, or somebody put other VMs into it",
            remedy="use another vm_group, or have the administrator rename the rule or take their VMs out of it",
        )
    return None


def _guarded(view: ClusterView, holder: Holder, turn: Turn, known: bool, mine: dict[int, Json]) -> Look:
    """VMs that are gone join nothing; a group that somebody uses is not deleted, and then nothing of it is changed."""
    refused: dict[int, CpiError] = {
        index: VMNotFound(f"VM {change['vm']} is gone and joins nothing", remedy="create it again")
        for index, change in mine.items()
        if change["op"] in JOINS and change["vm"] in turn.dead
    }
    users = _users(view, turn, known)
    deletes = [index for index, change in mine.items() if change["op"] == "delete"]
    if users and deletes:
        refused |= dict.fromkeys(deletes, _in_use(holder.cid, view.name, users))
        if len(deletes) == len(mine):
            return Look(holder, Turn(holder.spec, ours=turn.ours), refused)
    return Look(holder, turn, refused)


def _users(view: ClusterView, turn: Turn, known: bool) -> list[str]:
    """Where the group was never made, nothing there can be using it, whatever its name."""
    group = view.vm_group(turn.spec.name)
    rules = in_the_way(view, turn.spec, turn.owned) if known else []
    if group is None:
        return [f"the rule {name!r}" for name in rules]
    members = [vm for vm in group.members if vm not in turn.dead and vm not in turn.leaving]
    named = [f"{vm} ({'ours' if vm in turn.ours else 'foreign'})" for vm in [*members, *sorted(turn.joining)]]
    rules += [rule.name for rule in foreign_rules(view, turn.spec)]
    return [*dict.fromkeys(named), *(f"the rule {name!r}" for name in dict.fromkeys(rules))]


def _in_use(cid: str, cluster: str, users: list[str]) -> GroupInUse:
    return GroupInUse(
        f"server group {cid} is kept in cluster {cluster}",
        why=f"used by {', '.join(users[:5])}",
        remedy="delete our VMs first; have the administrator take foreign VMs and rules off the group",
    )
