"""Looks: which VMs and server groups are there, and which nodes are healthy; of all, a deployment or one node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from coterie.errors import NotFound
from coterie.flows.health import CHECK_HEALTH, CheckHealth
from coterie.flows.look import LOOK, Look
from coterie.ledger.rows import clouds, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors, steps, tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.ring.owner import Fleet


@dataclass(frozen=True, slots=True)
class Scope:
    """`node`: a uuid. Neither: everything."""

    deployment: str | None = None
    node: str | None = None


def look(
    ledger: Ledger, how: Look | None = None, scope: Scope | None = None, requested_by: str | None = None
) -> int | None:
    """The task; None where there is no cloud to look at. `scope` None: the periodic look, which leaves out clouds at
    which the last look goes on still.

    No cloud waits for another one. Those without a living conductor are left out, and named in the task: a look does
    not wait for a site that is gone."""
    with ledger.write() as tx:
        rows, fleet = clouds.all_clouds(tx), conductors.living(tx)
        busy = {flow: steps.under_way(tx, flow) if scope is None else set() for flow in (LOOK.name, CHECK_HEALTH.name)}
        wanted = _list_clouds(tx, rows, scope or Scope()) - {cloud for cloud, _ in busy[LOOK.name]}
        served = {name for name in wanted if _has_conductor(fleet, rows[name])}
        if scope is not None and wanted and not served:
            cloud = rows[min(wanted)]
            raise fleet.refusal(cloud.conductor_group, cloud.driver)
        if not served:
            return None
        checks = _health_steps(tx, rows, fleet, scope, busy[CHECK_HEALTH.name])
        looked_at = _look_steps(rows, served, how or Look(), scope or Scope())
        tasks.forget_old(tx, "look", keep=20)
        opening = ", ".join(["1 cloud" if len(served) == 1 else f"{len(served)} clouds", *_left_out(wanted - served)])
        new = NewTask("look", None, _stages(looked_at, checks), requested_by=requested_by, opening=opening)
        return tasks.create(tx, new)


def _has_conductor(fleet: Fleet, cloud: CloudRow) -> bool:
    return bool(fleet.table(cloud.conductor_group, cloud.driver, LOOK.name).members)


def _left_out(unserved: Set[str]) -> list[str]:
    return [f"without {', '.join(sorted(unserved))}: no conductor is alive for it"] if unserved else []


def _look_steps(rows: Mapping[str, CloudRow], served: Set[str], how: Look, scope: Scope) -> dict[str, NewStep]:
    params = replace(how, deployment=scope.deployment, only=scope.node)
    return {name: LOOK.step(params, name, rows[name]) for name in sorted(served)}


def _stages(looks: Mapping[str, NewStep], checks: Mapping[str, Sequence[NewStep]]) -> list[NewStage]:
    """The health of a cloud's nodes is checked after the look at that cloud; no other is waited for."""
    stages = [NewStage(f"look at {cloud}", [step]) for cloud, step in looks.items()]
    before = {cloud: n for n, cloud in enumerate(looks)}
    for cloud, found in checks.items():
        needs = [(before[cloud], "ended")] if cloud in before else []
        stages.append(NewStage(f"health in {cloud}", found, needs))
    return stages


def _list_clouds(tx: Tx, rows: Mapping[str, CloudRow], scope: Scope) -> set[str]:
    if scope == Scope():
        return set(rows)
    found = nodes.clouds_of(tx, deployment=scope.deployment, only=scope.node)
    if not found:
        whose = f"deployment {scope.deployment} has no nodes" if scope.deployment else f"no node {scope.node!r}"
        raise NotFound(whose, remedy="list them with `coterie nodes`")
    return found


def _health_steps(
    tx: Tx, rows: Mapping[str, CloudRow], fleet: Fleet, scope: Scope | None, busy: Container[tuple[str, str]]
) -> dict[str, list[NewStep]]:
    """By cloud, one for each conductor group that works on nodes with a health check and has a living conductor; nodes
    of the others are shown as unserved."""
    where, found = scope or Scope(), defaultdict[str, list[NewStep]](list)
    params = CheckHealth(where.deployment, where.node, counts=scope is None)
    for cloud, group in sorted(nodes.groups_to_check(tx, deployment=where.deployment, only=where.node)):
        if (cloud, group) not in busy and fleet.table(group, rows[cloud].driver, CHECK_HEALTH.name).members:
            found[cloud].append(CHECK_HEALTH.step(params, cloud, rows[cloud], group=group))
    return found
