"""The one writer of a cluster's groups and rules: reads, merges, writes once for all who wait, and reads again.

Only what is visible then is acknowledged. The coordinator calls `apply`, nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, GroupInUse, Json, NameTaken, OutcomeUnknown, VMNotFound
from coterie.cpi.vsphere import sdk
from coterie.cpi.vsphere.drs import ClusterView, Edits, Turn, foreign_rules, plan, vm_rule
from coterie.cpi.vsphere.holders import Holder, Holders, group_missing
from coterie.cpi.vsphere.marking import vm_mark
from coterie.cpi.vsphere.refusals import Refusal, told
from coterie.errors import CoterieError

_TRIES = 6
_AGAIN = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "ManagedObjectNotFound", "InvalidArgument")


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found before a write: the group's holder, its turn, and who cannot have what they asked."""

    holder: Holder
    turn: Turn
    refused: dict[int, CoterieError]


class Membership(Holders):
    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        cluster = self.cluster_of(domain)
        outcomes: dict[int, Json] = {}
        failed: CoterieError = _restless()
        self.wait_for_others(cluster)
        for attempt in range(_TRIES):
            waiting = {index: change for index, change in enumerate(changes) if index not in outcomes}
            if not waiting:
                break
            time.sleep(0.05 * attempt)
            try:
                outcomes |= self._attempt(cluster, waiting)
            except Refusal as refusal:
                failed = told(refusal)
                if not refusal.is_a(*_AGAIN):
                    break
            except OutcomeUnknown:
                continue  # the next look tells whether it was written
            except CpiError as error:
                failed = error
                break
        return [outcomes.get(index) or {"ok": False, "error": failed.facts()} for index in range(len(changes))]

    def _attempt(self, cluster: Any, waiting: dict[int, Json]) -> dict[int, Json]:
        """One look, one write, one look; the outcomes that are certain now."""
        view = self.view(cluster)
        looks, refused = self._looks(view, cluster, waiting)
        edits = Edits()
        for look in looks:
            plan(view, look.turn, edits)
        for look in looks:
            self._note_before(look, cluster, edits)
        for part in (edits.first, edits.then):
            if part:
                self.write(cluster, part)
        after = self.view(cluster) if edits.first or edits.then else view
        for look in looks:
            if after.vm_group(look.turn.spec.name) is not None:
                self.note_live(look.holder, cluster)
        return {**_answers(refused), **self._seen(after, looks, waiting, refused)}

    def _looks(
        self, view: ClusterView, cluster: Any, waiting: dict[int, Json]
    ) -> tuple[list[_Look], dict[int, CoterieError]]:
        looks, refused = [], {}
        for cid in dict.fromkeys(change["group"] for change in waiting.values()):
            mine = {index: change for index, change in waiting.items() if change["group"] == cid}
            look = self._look(view, cluster, cid, mine)
            if isinstance(look, CoterieError):
                refused.update(dict.fromkeys(mine, look))
                continue
            refused.update(look.refused)
            looks.append(look)
        return looks, refused

    def _look(self, view: ClusterView, cluster: Any, cid: str, mine: dict[int, Json]) -> _Look | CoterieError:
        holder = self.holder(cid)
        if holder is None:
            return group_missing(cid, "nothing in the vCenter remembers it")
        group = view.vm_group(holder.spec.name)
        joining = {change["vm"] for change in mine.values() if change["op"] in ("join", "restore")}
        leaving = {change["vm"] for change in mine.values() if change["op"] == "leave"}
        living, ours = self._living({*(group.members if group else ()), *joining})
        if joining:
            refusal = self._closed(view, cluster, holder, ours - joining, mine)
            if refusal is not None:
                return refusal
        refused: dict[int, CoterieError] = {
            index: VMNotFound(f"VM {change['vm']} is gone and joins nothing", remedy="create it again")
            for index, change in mine.items()
            if change["vm"] in joining - living
        }
        dead = frozenset({*(group.members if group else ()), *joining} - living)
        turn = Turn(holder.spec, frozenset(joining & living), frozenset(leaving), dead, frozenset(ours))
        for index, change in mine.items():
            if change["op"] == "delete" and (users := _users(view, turn)):
                refused[index] = _in_use(cid, view.name, users)
        if any(change["op"] == "delete" for index, change in mine.items() if index in refused) and not (
            joining or leaving
        ):
            return _Look(holder, Turn(holder.spec, ours=turn.ours), refused)
        return _Look(holder, turn, refused)

    def _closed(
        self, view: ClusterView, cluster: Any, holder: Holder, ours: set[str], mine: dict[int, Json]
    ) -> CoterieError | None:
        """Why nobody can join this group here."""
        group = view.vm_group(holder.spec.name)
        if group is None and holder.spec.adopted:
            return group_missing(holder.cid, f"cluster {view.name} has no DRS VM group {holder.spec.name!r}")
        restored = any(change["op"] == "restore" for change in mine.values())
        if group is None and cluster._moId in holder.live and not restored:
            return group_missing(
                holder.cid, f"its DRS VM group {holder.spec.name!r} was removed or renamed in {view.name}"
            )
        ambiguous = holder.cid not in holder.spec.name and not holder.spec.adopted
        if group is not None and ambiguous and cluster._moId not in holder.live and not ours:
            return NameTaken(
                f"cluster {view.name} has a DRS group {holder.spec.name!r} that is not ours",
                remedy="use another vm_group, or say placement.adopt: true to use it",
            )
        return None

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

    def _note_before(self, look: _Look, cluster: Any, edits: Edits) -> None:
        """Before its group goes it is written that it may be absent: who dies in between leaves no false alarm."""
        name = look.turn.spec.name
        if any(op == "remove" and one.name == name for op, one in edits.then):
            self.note_reserved(look.holder, cluster)

    def _seen(
        self, view: ClusterView, looks: list[_Look], waiting: dict[int, Json], refused: dict[int, CoterieError]
    ) -> dict[int, Json]:
        """Acknowledge what the cluster shows now; the others are tried again."""
        by_cid = {look.holder.cid: look for look in looks}
        found: dict[int, Json] = {}
        for index, change in waiting.items():
            look = by_cid.get(change["group"])
            if index in refused or look is None or not _visible(view, look.turn, change):
                continue
            if change["op"] in ("join", "restore") and self.holder(change["group"]) is None:
                found[index] = {"ok": False, "error": group_missing(change["group"], "it was just deleted").facts()}
                continue
            found[index] = {"ok": True}
        return found


def _visible(view: ClusterView, turn: Turn, change: Json) -> bool:
    group, rule = view.vm_group(turn.spec.name), vm_rule(view, turn.spec)
    members = group.members if group else ()
    if change["op"] in ("join", "restore"):
        return change["vm"] in members and (rule is None or change["vm"] in rule.vms)
    kept = bool(foreign_rules(view, turn.spec)) or turn.spec.adopted
    if change["op"] == "leave":
        # a group that an administrator's rule needs cannot be emptied; its last member leaves by being destroyed
        return change["vm"] not in members or (kept and set(members) <= turn.leaving | turn.dead)
    return group is None


def _users(view: ClusterView, turn: Turn) -> list[str]:
    group = view.vm_group(turn.spec.name)
    members = [vm for vm in (group.members if group else ()) if vm not in turn.dead and vm not in turn.leaving]
    rules = [f"the rule {rule.name!r}" for rule in foreign_rules(view, turn.spec)] if group else []
    named = [f"{vm} ({'ours' if vm in turn.ours else 'foreign'})" for vm in members]
    return [*named, *rules]


def _in_use(cid: str, cluster: str, users: list[str]) -> GroupInUse:
    return GroupInUse(
        f"server group {cid} is kept in cluster {cluster}",
        why=f"used by {', '.join(users[:5])}",
        remedy="delete our VMs first; have the administrator take foreign VMs and rules off the group",
    )


def _answers(refused: dict[int, CoterieError]) -> dict[int, Json]:
    return {index: {"ok": False, "error": error.facts()} for index, error in refused.items()}


def _restless() -> CpiError:
    return CpiError(
        "the change of the DRS groups did not last",
        why="another writer replaced the list of members, or the vCenter did not show it",
        remedy="find out who else writes these groups, then repeat",
        retryable=True,
    )
