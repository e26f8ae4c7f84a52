"""Starts work: plans on refreshed facts, and turns an accepted plan into a task in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.load import driver_names
from coterie.errors import Conflict, NotFound, StalePlan
from coterie.flows.disk import DELETE_DISK, DeleteDisk
from coterie.ledger import writes
from coterie.ledger.rows import clouds, objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewTask
from coterie.manifest import load_cloud_config
from coterie.plan.model import Plan
from coterie.requests.draft import Permit, accept_draft, draft_plan, store_config
from coterie.requests.pinned_clouds import refuse_moved_clouds
from coterie.requests.request import PlanRequest, az_groups, cloud_rows

_TRIES = 16


def plan(ledger: Ledger, request: PlanRequest) -> Plan:
    """What would be done. Changes no cloud and no deployment; the only rows it writes are dated facts."""
    return draft_plan(ledger, request).plan


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

    `permit` runs inside the accepting transaction, with the deployment locked: it raises, or notes the owner.
    A draft that was overtaken is made again: of deployments that are accepted at once, each gets its own addresses.
    """
    overtaken: StalePlan | None = None
    for _ in range(_TRIES):
        draft = draft_plan(ledger, request)
        if expect is not None and draft.plan.id != expect:
            raise StalePlan(
                f"plan {expect} is out of date",
                why=f"the same request now gives plan {draft.plan.id}",
                remedy="look at the new plan and confirm that one",
            )
        try:
            return accept_draft(ledger, draft, kind, by, permit)
        except StalePlan as error:
            overtaken = error
    raise overtaken or AssertionError("there is at least one try")


def cancel(ledger: Ledger, task: int) -> bool:
    """False when it had ended already."""
    with ledger.write() as tx:
        if not tasks.exists(tx, task):
            raise NotFound(f"there is no task {task}", remedy="see `coterie tasks`")
        return tasks.cancel(tx, task)


def set_cloud_config(ledger: Ledger, text: str, file: str, expect: int | None = None) -> int:
    """`expect`: the id of the config that this one was made from; another one now → StalePlan."""
    config = load_cloud_config(text, file, drivers=driver_names()).value
    refuse_moved_clouds(ledger, cloud_rows(config))
    with ledger.write() as tx:
        present = clouds.config(tx)
        if expect is not None and expect != (present.id if present else 0):
            raise StalePlan("the cloud config has changed meanwhile", remedy="look at it, and repeat")
        return store_config(tx, text, cloud_rows(config), az_groups(config))


def delete_kept_disks(ledger: Ledger, intents: Sequence[str], by: str | None) -> int:
    """One task with a step for each; all of them, or none is begun."""
    with ledger.write() as tx:
        configured = clouds.all_clouds(tx)
        steps = []
        for intent in sorted(set(intents)):
            row = _require_kept_disk(tx, intent)
            cloud = configured.get(row.cloud)
            if cloud is None:
                raise NotFound(f"cloud {row.cloud} is not configured", remedy="put it back: coterie clouds set FILE")
            cid = row.cid or ""
            writes.execute(tx, objects.begin_delete(intent, cid))
            steps.append(DELETE_DISK.step(DeleteDisk(intent, cid), row.ref or intent, cloud))
        return tasks.create(tx, NewTask("delete-disk", None, [NewStage("disks", steps)], requested_by=by))


def _require_kept_disk(tx: Tx, intent: str) -> ObjectRow:
    row = objects.lock(tx, intent)
    if row is None or row.kind != "disk":
        raise NotFound(f"there is no disk {intent}", remedy="see `coterie disks`")
    objects.refuse_attached(row)
    if row.cid is None or not (row.state == "kept" or _deletion_failed_before(tx, row)):
        raise Conflict(
            f"disk {intent} is {row.state}, not kept",
            why=f"it belongs to {row.ref}" if row.node else "",
            remedy="only a disk that no node uses can be deleted",
        )
    return row


def _deletion_failed_before(tx: Tx, disk: ObjectRow) -> bool:
    """Whether its deletion was requested before, and was cancelled or failed."""
    return disk.state == "deleting" and disk.node is None and not tasks.running(tx, "delete-disk")
