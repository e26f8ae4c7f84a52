"""What callers may wish for, as one function each: thin, for the deciding is done in `plan` and `task`."""

from __future__ import annotations

from typing import Any

from coterie.director.access import caller, teams
from coterie.director.context import Office
from coterie.director.services import clouds, sealing
from coterie.director.services.request_models import DeployWish, PlanWish
from coterie.errors import Conflict, InvalidDocument, UsageError
from coterie.ledger.views import deployments, nodes, objects, tasks
from coterie.ledger.visibility import is_limited
from coterie.manifest import load_deployment
from coterie.plan import render
from coterie.plan.model import Plan
from coterie.requests import regroup, settle_unknown, single_step, start, unenroll
from coterie.requests.audit import placement_audit
from coterie.requests.draft import Permit
from coterie.requests.enroll import Enrollment
from coterie.requests.enroll import enroll as enroll_machine
from coterie.requests.request import PlanRequest


def plan(office: Office, wish: PlanWish) -> Plan:
    if wish.delete == (wish.manifest is not None):
        raise UsageError(
            "a plan needs either a manifest or a deployment to delete",
            remedy="send `manifest`, or `deployment` with `delete: true`",
        )
    name = _named(wish) if is_limited() else None
    if name is not None:
        teams.require_own_or_new(office.ledger, name)
    return start.plan(office.ledger, _request(office, wish))


def rendered(made: Plan, detail: bool) -> str:
    return render.text(made, detail)


def deploy(office: Office, name: str, wish: DeployWish) -> int:
    teams.require_takable(office.ledger, name, wish.team)
    request = PlanRequest(
        deployment=name,
        manifest=wish.manifest,
        manifest_file=wish.manifest_file,
        cloud_config=clouds.brought(office, wish.cloud_config, wish.config_file),
        config_file=wish.config_file,
        recreate=wish.recreate,
        nodes=tuple(wish.nodes),
        auto_anti_affinity=office.settings["auto_anti_affinity"],
    )
    by = caller.present().name
    return start.deploy(office.ledger, request, wish.plan, by, permit=lambda tx: teams.take(tx, name, wish.team))


def delete(office: Office, name: str, delete_disks: bool, plan_id: str | None) -> int:
    teams.require_own(office.ledger, name)
    wish = PlanWish(deployment=name, delete=True, delete_disks=delete_disks)
    request, by = _request(office, wish), caller.present().name
    return start.deploy(office.ledger, request, plan_id, by, permit=lambda tx: teams.still_own(tx, name))


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


def delete_disk(office: Office, intent: str) -> int:
    _require_visible(office, intent)
    return start.delete_kept_disk(office.ledger, intent, caller.present().name)


def settle(office: Office, intent: str, cid: str | None) -> None:
    _require_visible(office, intent)
    settle_unknown.settle(office.ledger, intent, cid)


def move_node(office: Office, uuid: str, group: str | None, agree: Permit) -> None:
    with office.ledger.read() as tx:
        cloud = nodes.one(tx, uuid)["cloud"]
    if group is not None:
        sealing.require_movable(office, cloud, group)
    regroup.move_node(office.ledger, uuid, group, agree)


def enroll(office: Office, wish: Enrollment) -> str:
    if wish.conductor_group is not None:
        sealing.require_movable(office, wish.cloud, wish.conductor_group)
    return enroll_machine(office.ledger, wish, caller.present().name)


def forget_node(office: Office, uuid: str) -> None:
    unenroll.forget(office.ledger, uuid, caller.present().name)


def destroy_node(office: Office, uuid: str) -> int:
    return unenroll.destroy(office.ledger, uuid, caller.present().name)


def repair_group(office: Office, intent: str) -> int:
    return single_step.repair_group(office.ledger, intent, caller.present().name)


def grant(office: Office, cloud: str, user: str, groups: bool) -> int:
    return single_step.grant(office.ledger, cloud, user, groups, caller.present().name)


def audit(office: Office, deployment: str | None) -> dict[str, Any]:
    if is_limited() and deployment is None:
        raise UsageError("which deployment?", remedy="name one: the audit of all is not for a single team")
    if deployment is not None:
        with office.ledger.read() as tx:
            deployments.one(tx, deployment)
    return placement_audit(office.ledger, deployment)


def _request(office: Office, wish: PlanWish) -> PlanRequest:
    return PlanRequest(
        deployment=wish.deployment,
        manifest=wish.manifest,
        manifest_file=wish.manifest_file,
        cloud_config=clouds.brought(office, wish.cloud_config, wish.config_file),
        config_file=wish.config_file,
        delete=wish.delete,
        delete_disks=wish.delete_disks,
        recreate=wish.recreate,
        nodes=tuple(wish.nodes),
        auto_anti_affinity=office.settings["auto_anti_affinity"],
    )


def _named(wish: PlanWish) -> str | None:
    if wish.manifest is None:
        return wish.deployment
    try:
        return load_deployment(wish.manifest, wish.manifest_file).value.name
    except InvalidDocument:
        return wish.deployment  # planning will tell the mistakes


def _require_visible(office: Office, intent: str) -> None:
    with office.ledger.read() as tx:
        objects.one(tx, intent)
