"""Starts work: plans on refreshed facts, and turns an accepted plan into a task in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from coterie.cpi.contract import Capabilities
from coterie.cpi.load import driver_names
from coterie.errors import Conflict, NotFound, StalePlan
from coterie.ids import Ids
from coterie.ledger import (
    clouds,
    conductors,
    deployments,
    enrolled,
    groups,
    identity,
    nodes,
    objects,
    snapshot,
    tasks,
    writes,
)
from coterie.ledger.clouds import CloudRow
from coterie.ledger.nodes import NodeRow
from coterie.ledger.objects import ObjectRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.tasks import NewStage, NewStep, NewTask
from coterie.manifest import load_cloud_config
from coterie.plan.model import Change, CloudNow, Plan, Rollout
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan, plan_removal, refused
from coterie.task.execute import Execution
from coterie.task.needs import known_groups, lost_groups, needs
from coterie.task.refresh import ask
from coterie.task.regroup import move_clouds
from coterie.task.request import PlanRequest, configured, read

_RESURRECTED_AT_ONCE = 10
Permit = Callable[[Tx], None]
_MANY_MISSING, _SHARE_MISSING = 5, 0.2


def plan(ledger: Ledger, request: PlanRequest) -> Plan:
    """What would be done. Changes no cloud, no wish and no record; the only rows it writes are dated facts."""
    return _Draft(ledger, request).plan


def deploy(
    ledger: Ledger,
    request: PlanRequest,
    expect: str | None,
    by: str | None,
    *,
    kind: str = "deploy",
    permit: Permit | None = None,
) -> int:
    """Accept a plan: the task that carries it out. `expect`: the plan that was confirmed; another one → StalePlan.

    `permit` is asked inside the accepting transaction, with the deployment held: it raises, or notes whose it is.
    """
    draft = _Draft(ledger, request)
    if expect is not None and draft.plan.id != expect:
        raise StalePlan(
            f"plan {expect} is out of date",
            why=f"the same request now gives plan {draft.plan.id}",
            remedy="look at the new plan and confirm that one",
        )
    return draft.accept(kind, by, permit)


def resurrect(ledger: Ledger, deployment: str) -> int | None:
    """Make the dead and missing nodes of a deployment anew, as they were; its wish is not looked at."""
    with ledger.write() as tx:
        deployments.lock(tx, deployment)
        dead = _revivable(nodes.of_deployment(tx, deployment))
        if not dead:
            return None
        chosen = Plan(
            deployment,
            tuple(_as_it_was(node) for node in dead),
            tuple(
                Rollout(name, 0, _RESURRECTED_AT_ONCE, serial=False)
                for name in sorted({n.instance_group for n in dead})
            ),
            users=None,
        )
        return Execution(tx, chosen, Ids(), identity.director(tx).name).start("resurrect", None)


def _revivable(present: Sequence[NodeRow]) -> list[NodeRow]:
    """Where very many are missing at once, it is rather our sight of the cloud that is lost: a person must look."""
    missing = sum(node.state == "missing" for node in present)
    blind = missing >= _MANY_MISSING and missing > len(present) * _SHARE_MISSING
    states = ("dead",) if blind else ("dead", "missing")
    return [node for node in present if node.state in states and node.spec]


def _as_it_was(node: NodeRow) -> Change:
    details = {
        "instance_group": node.instance_group,
        "index": node.index,
        "node": node.uuid,
        "wish": node.spec,
        "addresses": node.addresses or {},
        "leaves": {},
        "gains": {},
        "server_group": {"intent": node.server_group} if node.server_group else None,
    }
    return Change("recreate", "node", node.name, f"its VM is {node.state}", node.cloud, node.az, True, details)


def look(ledger: Ledger) -> int | None:
    """Look after the VMs of every cloud that has any."""
    with ledger.write() as tx:
        rows = clouds.all_clouds(tx)
        steps = [
            NewStep("look", "begin", name, {}, None, name, row.driver, row.conductor_group)
            for name, row in sorted(rows.items())
        ]
        if not steps or tasks.running(tx, "look"):
            return None
        tasks.forget_old(tx, "look", keep=20)
        return tasks.create(tx, NewTask("look", None, [NewStage("look", steps)], opening=f"{len(steps)} clouds"))


def cancel(ledger: Ledger, task: int) -> bool:
    """False when it had ended already."""
    with ledger.write() as tx:
        if not tasks.exists(tx, task):
            raise NotFound(f"there is no task {task}", remedy="see `coterie tasks`")
        return tasks.cancel(tx, task)


def set_cloud_config(ledger: Ledger, text: str, file: str, expect: int | None = None) -> int:
    """`expect`: the id of the config that this one was made from; another one now → StalePlan."""
    config = load_cloud_config(text, file, drivers=driver_names()).value
    with ledger.write() as tx:
        present = clouds.config(tx)
        if expect is not None and expect != (present.id if present else 0):
            raise StalePlan("the cloud config has changed meanwhile", remedy="look at it, and repeat")
        wanted = configured(config)
        _refuse_lost_clouds(tx, set(wanted))
        move_clouds(tx, wanted)
        return clouds.set_config(tx, text, wanted.values())


def delete_kept_disk(ledger: Ledger, intent: str, by: str | None) -> int:
    with ledger.write() as tx:
        row = objects.get(tx, intent)
        if row is None or row.kind != "disk":
            raise NotFound(f"there is no disk {intent}", remedy="see `coterie disks`")
        if row.cid is None or not (row.state == "kept" or _given_up(tx, row)):
            raise Conflict(
                f"disk {intent} is {row.state}, not kept",
                why=f"it belongs to {row.ref}" if row.node else "",
                remedy="only a disk that no node uses can be deleted",
            )
        cloud = clouds.get(tx, row.cloud)
        if cloud is None:
            raise NotFound(f"cloud {row.cloud} is not configured", remedy="put it back: coterie clouds set FILE")
        writes.apply(tx, [objects.deleting(intent, row.cid)], time(tx))
        data = {"intent": intent, "cid": row.cid}
        step = NewStep("disk.delete", "begin", row.ref or intent, data, None, row.cloud, cloud.driver)
        step = replace(step, conductor_group=cloud.conductor_group)
        return tasks.create(tx, NewTask("delete-disk", None, [NewStage("disk", [step])], requested_by=by))


def _given_up(tx: Tx, disk: ObjectRow) -> bool:
    """Whether its deletion was asked for before, and cancelled or failed on the way."""
    return disk.state == "deleting" and disk.node is None and not tasks.running(tx, "delete-disk")


def settle_object(ledger: Ledger, intent: str, cid: str | None) -> None:
    """A person has looked: the object is there as `cid`, or (None) it is not. Where the cloud can be asked, it is."""
    if cid is not None:
        _refuse_unmarked(ledger, intent, cid)
    with ledger.write() as tx:
        row = objects.get(tx, intent)
        if row is None:
            raise NotFound(f"the ledger has no object {intent}", remedy="see `coterie nodes show NODE`")
        if row.state not in ("unknown", "intended"):
            raise Conflict(f"object {intent} is {row.state}, so there is nothing to settle")
        if cid is not None:
            _refuse_another_s(tx, row, cid)
        change = objects.gone(intent, tombstone=True) if cid is None else objects.landed(intent, cid)
        writes.apply(tx, [change], time(tx))


def _refuse_unmarked(ledger: Ledger, intent: str, cid: str) -> None:
    with ledger.read() as tx:
        row = objects.get(tx, intent)
        cloud = clouds.get(tx, row.cloud) if row else None
        director = identity.director(tx).uuid
    if row is None or cloud is None or row.state not in ("unknown", "intended"):
        return
    (found,) = ask(ledger, [(cloud, "marked", {"kind": row.kind, "director": director, "intent": intent})])
    if found["able"] and found["cid"] != cid:
        shown = f"{row.kind} {found['cid']}" if found["cid"] else f"no {row.kind}"
        raise Conflict(
            f"{row.kind} {cid} does not carry the mark {intent}",
            why=f"under that mark the cloud shows {shown}",
            remedy="give the id that the cloud shows; without one, say that it is gone",
        )


def _refuse_another_s(tx: Tx, row: ObjectRow, cid: str) -> None:
    """What is settled is deleted one day: it must be nobody else's."""
    user = enrolled.user_of(tx, row.cloud, cid) if row.kind == "vm" else objects.holder_of(tx, row.cloud, row.kind, cid)
    if user is not None:
        raise Conflict(
            f"{row.kind} {cid} of cloud {row.cloud} belongs to {user}",
            remedy="give the id of the object that carries the mark of this intent",
        )


class _Draft:
    """A plan and what it was made from, until it is accepted or thrown away."""

    def __init__(self, ledger: Ledger, request: PlanRequest) -> None:
        self._ledger = ledger
        self._request = request
        self._wish = read(ledger, request)
        self._groups = self._wish.groups()
        facts = self._ask()
        self._wish.check({name: cloud.capabilities for name, cloud in facts.items()})
        with ledger.read() as tx:
            self._fingerprint = snapshot.fingerprint(tx, self._wish.name)
            self.snapshot = snapshot.read(tx, self._wish.name, facts)
        self.plan = self._make()

    def accept(self, kind: str, by: str | None, permit: Permit | None = None) -> int:
        wish = self._wish
        with self._ledger.write() as tx:
            deployments.lock(tx, wish.name)
            if permit is not None:
                permit(tx)
            if snapshot.fingerprint(tx, wish.name) != self._fingerprint:
                raise StalePlan(f"deployment {wish.name} changed while it was planned", remedy="plan and confirm again")
            director = identity.director(tx)
            self._save(tx, self._set_config(tx))
            execution = Execution(tx, self.plan, Ids(), director.name)
            return execution.start("delete" if self._request.delete else kind, by)

    def _set_config(self, tx: Tx) -> int:
        """Only a config that came with the request is stored: the one in force may be newer than this draft."""
        if self._request.cloud_config is None:
            present = clouds.config(tx)
            return present.id if present else 0
        _refuse_lost_clouds(tx, set(self._wish.clouds))
        move_clouds(tx, self._wish.clouds)
        return clouds.set_config(tx, self._wish.config_text, self._wish.clouds.values())

    def _save(self, tx: Tx, config_id: int) -> None:
        wish = self._wish
        if wish.deployment is None:
            deployments.stop_resurrection(tx, wish.name)
            return
        resurrection = wish.deployment.value.resurrection
        deployments.save(tx, wish.name, manifest=wish.manifest, config_id=config_id, resurrection=resurrection)
        groups.set_instance_groups(tx, wish.name, [group.name for group in self._groups])

    def _make(self) -> Plan:
        request = self._request
        if self._wish.deployment is None:
            return plan_removal(self.snapshot, request.delete_disks)
        options = Options(request.recreate, frozenset(request.nodes), request.delete_disks)
        return make_plan(self.snapshot, self._groups, options)

    def _ask(self) -> dict[str, CloudNow]:
        configured_clouds = self._wish.clouds
        with self._ledger.read() as tx:
            present = groups.of_deployment(tx, self._wish.name)
            used = {node.cloud for node in nodes.of_deployment(tx, self._wish.name)}
            director = identity.director(tx).uuid
        used |= {group.cloud for group in present} | {az.cloud for group in self._groups for az in group.azs}
        lost = used - configured_clouds.keys()
        if lost:
            raise refused(
                self._wish.name, [f"cloud {name} is in use but not in the cloud config" for name in sorted(lost)]
            )
        rows = [configured_clouds[name] for name in sorted(used)]
        self._require_conductors(rows)
        cids = {row.name: [g.cid for g in present if g.cloud == row.name and g.cid] for row in rows}
        known = known_groups(present, director)
        checks = ask(self._ledger, [(row, "check", needs(self._groups, row.name, known)) for row in rows])
        views = ask(self._ledger, [(row, "groups", {"cids": cids[row.name]}) for row in rows])
        return {
            row.name: CloudNow(
                row.name,
                row.driver,
                row.conductor_group,
                Capabilities.of_wire(check["capabilities"]),
                tuple(check["items"]),
                *lost_groups(check["capabilities"], groups_seen),
            )
            for row, check, groups_seen in zip(rows, checks, views, strict=True)
        }

    def _require_conductors(self, rows: Sequence[CloudRow]) -> None:
        """What nobody would run is refused before anything is written, even a question."""
        with self._ledger.read() as tx:
            fleet = conductors.living(tx)
        for row in rows:
            fleet.require(row.conductor_group, row.driver)


def _refuse_lost_clouds(tx: Tx, wanted: set[str]) -> None:
    lost = sorted({*objects.clouds_in_use(tx), *enrolled.clouds_of(tx)} - wanted)
    if lost:
        raise Conflict(
            f"the cloud config leaves out {', '.join(lost)}",
            why="objects of ours or enrolled nodes are still there",
            remedy="delete the deployments and nodes that use it first, or keep the cloud in the config",
        )
