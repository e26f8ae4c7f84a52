"""The one writer of a cluster's groups and rules: reads, merges, writes once for all who wait, and reads again.

Only what is visible then is acknowledged. The coordinator calls `apply`, nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from coterie.cpi.contract import CpiError, GroupInUse, Json, OutcomeUnknown
from coterie.cpi.drivers.vsphere.drs import ClusterView
from coterie.cpi.drivers.vsphere.holders import group_missing
from coterie.cpi.drivers.vsphere.looks import JOINS, Look, Looks
from coterie.cpi.drivers.vsphere.merging import Edits, Turn, plan
from coterie.cpi.drivers.vsphere.refusals import Refusal, told
from coterie.cpi.drivers.vsphere.rules import foreign_rules, vm_rule

_TRIES = 6
_PAUSE_S = 0.05
# another client was faster, or something went away between our look and our write: look again
_AGAIN = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "ManagedObjectNotFound", "InvalidArgument")


class Membership(Looks):
    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        cluster = self.cluster_of(domain)
        outcomes = {index: _refused(_overtaken(changes[index])) for index in _outdated(changes)}
        self.wait_for_others(cluster)
        failed = _restless()
        for attempt in range(_TRIES):
            waiting = {index: change for index, change in enumerate(changes) if index not in outcomes}
            if not waiting:
                break
            time.sleep(_PAUSE_S * attempt)
            try:
                outcomes |= self._attempt(cluster, waiting)
            except Refusal as refusal:
                failed = told(refusal)
                if not refusal.is_a(*_AGAIN):
                    break
            except OutcomeUnknown:
                continue  # the next look tells whether it was written
            except GroupInUse as error:
                failed = error
                break
        return [outcomes.get(index) or _refused(failed) for index in range(len(changes))]

    def _attempt(self, cluster: Any, waiting: dict[int, Json]) -> dict[int, Json]:
        """One look, one write, one look; the outcomes that are certain now."""
        view = self.view(cluster)
        looks, outcomes = self._looks(view, cluster, waiting)
        edits = Edits()
        for look in looks:
            plan(view, look.turn, edits)
        if edits.first or edits.then:
            view = self._written(cluster, looks, edits)
        for look in looks:
            if view.vm_group(look.turn.spec.name) is not None:
                self.note_live(look.holder, cluster)
            mine = {i: change for i, change in waiting.items() if change["group"] == look.holder.cid}
            outcomes |= self._seen(view, look, {i: change for i, change in mine.items() if i not in outcomes})
        return outcomes

    def _looks(self, view: ClusterView, cluster: Any, waiting: dict[int, Json]) -> tuple[list[Look], dict[int, Json]]:
        """Each group's part of the batch, and the outcomes of those that cannot be."""
        looks: list[Look] = []
        outcomes: dict[int, Json] = {}
        for cid in dict.fromkeys(change["group"] for change in waiting.values()):
            mine = {index: change for index, change in waiting.items() if change["group"] == cid}
            look = self.look(view, cluster, cid, mine)
            if isinstance(look, CpiError):
                outcomes |= dict.fromkeys(mine, _refused(look))
                continue
            outcomes |= {index: _refused(error) for index, error in look.refused.items()}
            looks.append(look)
        return looks, outcomes

    def _written(self, cluster: Any, looks: Sequence[Look], edits: Edits) -> ClusterView:
        """Before a group comes or goes it is written that it may be there, or absent: who dies in between leaves no
        stranger and no false alarm."""
        coming = {one.name for op, one in edits.first if op == "add"}
        going = {one.name for op, one in edits.then if op == "remove"}
        for look in looks:
            if look.turn.spec.name in coming:
                self.note_making(look.holder, cluster)
            if look.turn.spec.name in going:
                self.note_reserved(look.holder, cluster)
        for part in (edits.first, edits.then):
            if part:
                self.runtime.coordinator.hold(self.domain(cluster))
                self.write(cluster, part)
        return self.view(cluster)

    def _seen(self, view: ClusterView, look: Look, mine: dict[int, Json]) -> dict[int, Json]:
        """Acknowledge what the cluster shows now; the others are tried again."""
        shown = {index for index, change in mine.items() if _visible(view, look.turn, change)}
        joined = {index for index in shown if mine[index]["op"] in JOINS}
        if joined and self.holder(look.holder.cid) is None:
            late = _refused(group_missing(look.holder.cid, "it was deleted while VMs joined it"))
            return {index: late if index in joined else {"ok": True} for index in shown}
        return {index: {"ok": True} for index in shown}


def _outdated(changes: Sequence[Json]) -> list[int]:
    """A VM that shall leave and join: the later wish counts. The earlier one is of somebody who died waiting."""
    last = {(change["group"], change["vm"]): change["op"] in JOINS for change in changes}
    return [
        index
        for index, change in enumerate(changes)
        if change["vm"] and last[change["group"], change["vm"]] != (change["op"] in JOINS)
    ]


def _overtaken(change: Json) -> CpiError:
    return CpiError(
        f"VM {change['vm']} does not {change['op']} {change['group']}",
        why="the opposite was asked for later",
        remedy="repeat, if it is still wanted",
        retryable=True,
    )


def _visible(view: ClusterView, turn: Turn, change: Json) -> bool:
    group, rule = view.vm_group(turn.spec.name), vm_rule(view, turn.spec)
    members = group.members if group else ()
    if change["op"] in JOINS:
        return change["vm"] in members and (rule is None or change["vm"] in rule.vms)
    if change["op"] == "leave":
        # a group that somebody's rule needs cannot be emptied: its last member leaves by being destroyed
        kept = bool(foreign_rules(view, turn.spec)) or turn.spec.adopted
        return change["vm"] not in members or (kept and set(members) <= turn.leaving | turn.dead)
    if change["op"] == "untie":
        return turn.spec.host_rule not in turn.owned or turn.spec.host_rule not in view.rules
    return group is None


def _refused(error: CpiError) -> Json:
    return {"ok": False, "error": error.facts()}


def _restless() -> CpiError:
    return CpiError(
        "the change of the DRS groups did not last",
        why="another writer replaced the list of members, or the vCenter did not show it",
        remedy="find out who else writes these groups, then repeat",
        retryable=True,
    )
