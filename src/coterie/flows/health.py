"""The check of a node's health between deploys: one step for the nodes of a cloud that one conductor group works on.

A node that fails its check is `failing` until the check passes again; its problem counts the failures in a row that
periodic looks found. Looks on request do not count: however often a person looks, that recreates no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from coterie.engine.compute_slot import SLOT
from coterie.engine.flow import Done, Flow, Move, Next, Work
from coterie.flows.node_up import health_problem
from coterie.ledger.rows import nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.plan.spec import HealthSpec

_BATCH = 500  # nodes of one label, which must end within `call_timeout`
_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """`deployment`, `only` (a node's uuid): check no others. `counts`: failures count towards `recreate_after`."""

    deployment: str | None = None
    only: str | None = None
    counts: bool = True


@dataclass(slots=True)
class Checked:
    after: str = ""  # uuid of the last node that was checked


HealthWork = Work[CheckHealth, Checked]


def _check(work: HealthWork) -> Move:
    batch = _list_batch(work)
    if not batch:
        return Done()
    SLOT.release()
    with ThreadPoolExecutor(min(_AT_ONCE, len(batch)), thread_name_prefix="health") as pool:
        problems = list(pool.map(_problem_of, batch))
    for node, problem in zip(batch, problems, strict=True):
        _judge(work, node, problem)
    work.progress.after = batch[-1].uuid
    return Next("begin")


def _list_batch(work: HealthWork) -> Sequence[NodeRow]:
    params = work.params
    with work.ledger.read() as tx:
        return nodes.to_check(
            tx,
            work.cloud,
            work.claim.conductor_group,
            deployment=params.deployment,
            only=params.only,
            after=work.progress.after,
            most=_BATCH,
        )


def _problem_of(node: NodeRow) -> str | None:
    address = next(iter((node.addresses or {}).values()), None)
    return health_problem(HealthSpec.of_spec(node.spec or {}), address)


def _judge(work: HealthWork, node: NodeRow, problem: str | None) -> None:
    of = f"{node.deployment}: {node.name}"
    about = {"node": node.uuid, "deployment": node.deployment}
    if problem is None:
        if node.is_unhealthy:
            work.write(nodes.set_state_if(node, "up", None))
            work.say("node.up", f"{of} passes its health check again", **about)
        return
    counts, limit = work.params.counts, nodes.health_limit(node.spec)
    failures = node.failed_checks + counts
    work.write(nodes.set_state_if(node, "failing", nodes.unhealthy(problem, failures)))
    if not node.is_unhealthy or (counts and failures == 1):
        work.say("node.failing", f"{of} fails its health check: {problem}", **about)
    if counts and failures == limit:
        then = "resurrection or the next deploy recreates it"
        work.say("node.failing", f"{of} failed its health check {failures} times in a row; {then}", **about)


CHECK_HEALTH = Flow("node.health", CheckHealth, Checked, {"begin": _check})
