"""What a batch of changes finds before it is written: who can have what they asked, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import CpiError, GroupInUse, Json, NameTaken, VMNotFound
from coterie.cpi.vsphere import sdk
from coterie.cpi.vsphere.drs import ClusterView, Turn, foreign_rules
from coterie.cpi.vsphere.holders import Holder, Holders, group_missing
from coterie.cpi.vsphere.marking import vm_mark

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
        group = view.vm_group(holder.spec.name)
        present = set(group.members if group else ())
        joining, leaving = _named(mine, JOINS), _named(mine, ("leave",))
        living, ours = self._living(present | joining)
        closed = _closed(view, cluster, holder, ours - joining, mine) if joining else None
        if closed is not None:
            return closed
        turn = Turn(
            holder.spec,
            frozenset(joining & living),
            frozenset(leaving),
            frozenset((present | joining) - living),
            frozenset(ours),
        )
        return _guarded(view, holder, turn, mine)

    def _living(self, moids: set[str]) -> tuple[set[str], set[str]]:
        """Which of these VMs are there, and which of them are this Director's."""
        refs = [self.link.reference(sdk.vim.VirtualMachine, moid) for moid in sorted(moids)]
        rows = self.reader.living(refs, sdk.vim.VirtualMachine, ["name", "config.instanceUuid"])
        ours = {
            row.ref._moId
            for row in rows
            if vm_mark(str(row.get("name")), str(row.get("config.instanceUuid")), self.runtime.director_uuid)
        }
        return {row.ref._moId for row in rows}, ours


def _named(mine: dict[int, Json], ops: tuple[str, ...]) -> set[str]:
    return {str(change["vm"]) for change in mine.values() if change["op"] in ops}


def _closed(view: ClusterView, cluster: Any, holder: Holder, ours: set[str], mine: dict[int, Json]) -> CpiError | None:
    """Why nobody can join this group here."""
    spec, known = holder.spec, cluster._moId in holder.live
    group = view.vm_group(spec.name)
    if group is None and spec.adopted:
        return group_missing(holder.cid, f"cluster {view.name} has no DRS VM group {spec.name!r}")
    if group is None and known and not _named(mine, ("restore",)):
        return group_missing(holder.cid, f"its DRS VM group {spec.name!r} was removed or renamed in {view.name}")
    unmistakable = holder.cid in spec.name or spec.adopted or known or bool(ours)
    if group is not None and not unmistakable:
        return NameTaken(
            f"cluster {view.name} has a DRS group {spec.name!r} that is not ours",
            remedy="use another vm_group, or say placement.adopt: true to use it",
        )
    return None


def _guarded(view: ClusterView, holder: Holder, turn: Turn, mine: dict[int, Json]) -> Look:
    """VMs that are gone join nothing; a group that somebody uses is not deleted, and then nothing of it is changed."""
    refused: dict[int, CpiError] = {
        index: VMNotFound(f"VM {change['vm']} is gone and joins nothing", remedy="create it again")
        for index, change in mine.items()
        if change["op"] in JOINS and change["vm"] in turn.dead
    }
    users = _users(view, turn)
    deletes = [index for index, change in mine.items() if change["op"] == "delete"]
    if users and deletes:
        refused |= dict.fromkeys(deletes, _in_use(holder.cid, view.name, users))
        if len(deletes) == len(mine):
            return Look(holder, Turn(holder.spec, ours=turn.ours), refused)
    return Look(holder, turn, refused)


def _users(view: ClusterView, turn: Turn) -> list[str]:
    group = view.vm_group(turn.spec.name)
    if group is None:
        return []
    members = [vm for vm in group.members if vm not in turn.dead and vm not in turn.leaving]
    named = [f"{vm} ({'ours' if vm in turn.ours else 'foreign'})" for vm in [*members, *sorted(turn.joining)]]
    return [*dict.fromkeys(named), *(f"the rule {rule.name!r}" for rule in foreign_rules(view, turn.spec))]


def _in_use(cid: str, cluster: str, users: list[str]) -> GroupInUse:
    return GroupInUse(
        f"server group {cid} is kept in cluster {cluster}",
        why=f"used by {', '.join(users[:5])}",
        remedy="delete our VMs first; have the administrator take foreign VMs and rules off the group",
    )
