"""Looks: which VMs and server groups are there, and which nodes are healthy; of all, a deployment or one node."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from coterie.errors import NotFound
from coterie.flows.health import CHECK_HEALTH, CheckHealth
from coterie.flows.look import LOOK, Look
from coterie.ledger.rows import clouds, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors, steps, tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask


@dataclass(frozen=True, slots=True)
class Scope:
    """`node`: a uuid. Neither: everything."""

    deployment: str | None = None
    node: str | None = None


def look(
    ledger: Ledger, how: Look | None = None, scope: Scope | None = None, requested_by: str | None = None
) -> int | None:
    """The task; None where there is no cloud to look at. `scope` None: the periodic look, which leaves out clouds at
    which the last look goes on still."""
    with ledger.write() as tx:
        rows = clouds.all_clouds(tx)
        busy = {flow: steps.under_way(tx, flow) if scope is None else set() for flow in (LOOK.name, CHECK_HEALTH.name)}
        scope = scope or Scope()
        params = replace(how or Look(), deployment=scope.deployment, only=scope.node)
        concerned = sorted(_list_clouds(tx, rows, scope) - {cloud for cloud, _ in busy[LOOK.name]})
        if not concerned:
            return None
        stages = [NewStage("look", [LOOK.step(params, name, rows[name]) for name in concerned])]
        health = _health_steps(tx, rows, scope, busy[CHECK_HEALTH.name])
        if health:
            stages.append(NewStage("health", health, [(0, "ended")]))
        tasks.forget_old(tx, "look", keep=20)
        opening = f"{len(concerned)} clouds"
        return tasks.create(tx, NewTask("look", None, stages, requested_by=requested_by, opening=opening))


def _list_clouds(tx: Tx, rows: Mapping[str, CloudRow], scope: Scope) -> set[str]:
    if scope == Scope():
        return set(rows)
    found = nodes.clouds_of(tx, deployment=scope.deployment, only=scope.node)
    if not found:
        whose = f"deployment {scope.deployment} has no nodes" if scope.deployment else f"no node {scope.node!r}"
        raise NotFound(whose, remedy="list them with `coterie nodes`")
    return found


def _health_steps(
    tx: Tx, rows: Mapping[str, CloudRow], scope: Scope, busy: Container[tuple[str, str]]
) -> list[NewStep]:
    """One for each conductor group that works on nodes with a health check and has a live conductor: a look does not
    wait for a site that is gone, whose nodes are shown as unserved."""
    fleet, params = conductors.living(tx), CheckHealth(scope.deployment, scope.node)
    return [
        CHECK_HEALTH.step(params, cloud, rows[cloud], group=group)
        for cloud, group in sorted(nodes.groups_to_check(tx, deployment=scope.deployment, only=scope.node))
        if (cloud, group) not in busy and fleet.table(group, rows[cloud].driver, CHECK_HEALTH.name).members
    ]
