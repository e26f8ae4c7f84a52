"""What callers may wish for, as one function each: thin, for the deciding is done in `plan` and `task`."""

from __future__ import annotations

from typing import Any

from coterie.director.office import Office
from coterie.director.wish import DeployWish, PlanWish
from coterie.errors import Conflict, UsageError
from coterie.ledger.views import tasks
from coterie.plan import render
from coterie.plan.model import Plan
from coterie.task import cloud_change, errands, let_go, regroup, start
from coterie.task.audit import placement_audit
from coterie.task.enroll import Enrollment
from coterie.task.enroll import enroll as enroll_machine
from coterie.task.request import PlanRequest

_BY = "api"
_CONFIG = "cloud-config"


def plan(office: Office, wish: PlanWish) -> Plan:
    if wish.delete == (wish.manifest is not None):
        raise UsageError(
            "a plan needs either a manifest or a deployment to delete",
            remedy="send `manifest`, or `deployment` with `delete: true`",
        )
    return start.plan(office.ledger, _request(office, wish))


def rendered(made: Plan, detail: bool) -> str:
    return render.text(made, detail)


def deploy(office: Office, name: str, wish: DeployWish) -> int:
    request = PlanRequest(
        deployment=name,
        manifest=wish.manifest,
        manifest_file=wish.manifest_file,
        cloud_config=wish.cloud_config,
        config_file=wish.config_file,
        recreate=wish.recreate,
        nodes=tuple(wish.nodes),
        auto_anti_affinity=office.settings["auto_anti_affinity"],
    )
    return start.deploy(office.ledger, request, wish.plan, _BY)


def delete(office: Office, name: str, delete_disks: bool, plan_id: str | None) -> int:
    wish = PlanWish(deployment=name, delete=True, delete_disks=delete_disks)
    return start.deploy(office.ledger, _request(office, wish), plan_id, _BY)


def cancel(office: Office, task: int) -> None:
    with office.ledger.read() as tx:
        state = tasks.state(tx, task)
    if state not in tasks.UNFINISHED:
        raise Conflict(
            f"task {task} has ended already",
            why=f"it is {state}",
            remedy="nothing is left to cancel",
            details={"task_id": task},
        )
    start.cancel(office.ledger, task)


def set_cloud_config(office: Office, text: str, file: str, expect: int | None = None) -> int:
    """`expect`: the id of the config that this one was made from."""
    return start.set_cloud_config(office.ledger, text, file, expect)


def delete_disk(office: Office, intent: str) -> int:
    return start.delete_kept_disk(office.ledger, intent, _BY)


def settle(office: Office, intent: str, cid: str | None) -> None:
    start.settle_object(office.ledger, intent, cid)


def move_node(office: Office, uuid: str, group: str | None) -> None:
    regroup.move_node(office.ledger, uuid, group)


def enroll(office: Office, wish: Enrollment) -> str:
    return enroll_machine(office.ledger, wish, _BY)


def forget_node(office: Office, uuid: str) -> None:
    let_go.forget(office.ledger, uuid, _BY)


def destroy_node(office: Office, uuid: str) -> int:
    return let_go.destroy(office.ledger, uuid, _BY)


def move_cloud(office: Office, name: str, group: str) -> None:
    changed = cloud_change.moved(office.ledger, name, group)
    set_cloud_config(office, changed.body, _CONFIG, changed.id)


def add_cloud(office: Office, cloud: dict[str, Any]) -> None:
    changed = cloud_change.grown(office.ledger, cloud)
    set_cloud_config(office, changed.body, _CONFIG, changed.id)


def repair_group(office: Office, intent: str) -> int:
    return errands.repair_group(office.ledger, intent, _BY)


def grant(office: Office, cloud: str, user: str, groups: bool) -> int:
    return errands.grant(office.ledger, cloud, user, groups, _BY)


def audit(office: Office, deployment: str | None) -> dict[str, Any]:
    return placement_audit(office.ledger, deployment)


def _request(office: Office, wish: PlanWish) -> PlanRequest:
    return PlanRequest(
        deployment=wish.deployment,
        manifest=wish.manifest,
        manifest_file=wish.manifest_file,
        cloud_config=wish.cloud_config,
        config_file=wish.config_file,
        delete=wish.delete,
        delete_disks=wish.delete_disks,
        recreate=wish.recreate,
        nodes=tuple(wish.nodes),
        auto_anti_affinity=office.settings["auto_anti_affinity"],
    )
