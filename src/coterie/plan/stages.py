"""The order of a plan: stemcells and groups, then nodes az by az behind their canaries, disks, removals, groups gone.

A stage holds changes that may run beside each other, so many at a time; stages need each other *done* (a failure
stops what follows) or just *ended*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from coterie.plan.model import Change, NodeChange, Plan, Rollout

How = Literal["done", "ended"]
UNLIMITED = 1_000_000


@dataclass(slots=True)
class Stage:
    name: str
    changes: list[Change]
    needs: list[tuple[int, How]] = field(default_factory=list)
    max_in_flight: int = UNLIMITED
    stop_on_failure: bool = False


def stages(plan: Plan) -> list[Stage]:
    line = _Line()
    line.add("stemcells", _of(plan, "stemcell", "create"))
    line.add("server groups", _of(plan, "group", "create", "adopt", "update"))
    prepared = line.needs("done")
    nodes, disks = _by_group(plan)
    before: list[tuple[int, How]] = []
    for rollout in plan.rollouts:
        own = _roll_out(line, nodes[rollout.instance_group], rollout, [*prepared, *before])
        if rollout.serial:
            before = own or before
    nodes_ended = [*prepared, *line.needs("ended")[len(prepared) :]]
    for rollout in plan.rollouts:
        name = rollout.instance_group
        line.add(f"disks of {name}", disks[name], nodes_ended, rollout.max_in_flight)
    # No node is removed after what was to replace it has failed: the next deploy does it.
    line.add("removals", _of(plan, "node", "delete"), line.needs("done"))
    line.add("group removals", _of(plan, "group", "delete", "leave"), line.needs("ended"))
    line.add("disk removals", _of(plan, "disk", "delete"), line.needs("ended"))
    line.add("stemcell removals", _of(plan, "stemcell", "delete", "leave"), line.needs("ended"))
    return line.stages


class _Line:
    """The stages so far; empty ones are left out."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def add(
        self,
        name: str,
        changes: Sequence[Change],
        needs: Iterable[tuple[int, How]] = (),
        max_in_flight: int = UNLIMITED,
        stop_on_failure: bool = False,
    ) -> int | None:
        if not changes:
            return None
        self.stages.append(Stage(name, list(changes), sorted(set(needs)), max_in_flight, stop_on_failure))
        return len(self.stages) - 1

    def needs(self, how: How) -> list[tuple[int, How]]:
        return [(n, how) for n in range(len(self.stages))]


def _roll_out(
    line: _Line, changes: list[Change], rollout: Rollout, needs: list[tuple[int, How]]
) -> list[tuple[int, How]]:
    """The stages of one instance group; what a group that follows it must wait for."""
    canaries: list[Change] = []
    rest: list[Change] = []
    for change in changes:
        (canaries if len(canaries) < rollout.canaries and _may_be_canary(change) else rest).append(change)
    name = rollout.instance_group
    own: list[tuple[int, How]] = []
    first = line.add(f"canaries of {name}", canaries, needs, rollout.max_in_flight, stop_on_failure=True)
    if first is not None:
        own.append((first, "done"))
    for az in dict.fromkeys(change.az for change in rest):
        # What all of them stand on is named each time: an az that was skipped has "ended" too.
        waits = [*needs, *own]
        n = line.add(f"{name} in {az}", [c for c in rest if c.az == az], waits, rollout.max_in_flight)
        if n is not None:
            own.append((n, "ended"))
    return own


def _may_be_canary(change: Change) -> bool:
    return isinstance(change.details, NodeChange) and change.details.may_be_canary


def _by_group(plan: Plan) -> tuple[dict[str, list[Change]], dict[str, list[Change]]]:
    """Changes of nodes by instance group: those of the machine, and those of the disk alone."""
    nodes: dict[str, list[Change]] = defaultdict(list)
    disks: dict[str, list[Change]] = defaultdict(list)
    for change in _of(plan, "node", "create", "recreate", "update", "restart", "stop", "start"):
        if isinstance(change.details, NodeChange):
            (disks if change.details.disk_changes else nodes)[change.details.instance_group].append(change)
    return nodes, disks


def _of(plan: Plan, kind: str, *actions: str) -> list[Change]:
    return [change for change in plan.changes if change.kind == kind and change.action in actions]
