"""Requests that change deployments, nodes, groups and tasks: checks the caller, then calls `coterie.requests`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from coterie.director.access import caller, teams
from coterie.director.context import AppContext
from coterie.director.http.reply import Word
from coterie.director.services import clouds
from coterie.errors import Conflict, InvalidDocument, UsageError
from coterie.flows.look import Look
from coterie.ledger.store import Tx
from coterie.ledger.views import deployments, nodes, objects, tasks
from coterie.ledger.visibility import is_limited
from coterie.manifest import load_deployment
from coterie.plan import render
from coterie.plan.model import Plan
from coterie.requests import looks, node_actions, operations, regroup, settle_unknown, start
from coterie.requests.audit import placement_audit
from coterie.requests.draft import Permit
from coterie.requests.enroll import Enrollment
from coterie.requests.enroll import enroll as enroll_machine
from coterie.requests.looks import Scope
from coterie.requests.node_actions import NodeAction, Verb
from coterie.requests.request import PlanRequest


def plan(context: AppContext, body: PlanBody) -> Plan:
    if body.action is not None:
        return _plan_action(context, body, body.action)
    if body.delete == (body.manifest is not None):
        raise UsageError(
            "a plan needs either a manifest or a deployment to delete",
            remedy="send `manifest`, or `deployment` with `delete: true`",
        )
    name = _deployment_name(body) if is_limited() else None
    if name is not None:
        teams.require_own_or_new(context.ledger, name)
    return start.plan(context.ledger, _request(context, body))


def _plan_action(context: AppContext, body: PlanBody, verb: Verb) -> Plan:
    if body.deployment is None or not body.nodes or body.manifest is not None or body.delete:
        raise UsageError(
            "work on nodes needs a deployment and nodes, and nothing else",
            remedy="send `deployment`, `nodes` and `action`",
        )
    teams.require_own(context.ledger, body.deployment)
    disk = _visible_disk(context, body.disk)
    action = NodeAction(body.deployment, verb, tuple(body.nodes), body.max_in_flight, disk)
    return node_actions.plan_action(context.ledger, action)


def act_on_nodes(context: AppContext, name: str, body: ActionBody) -> int:
    teams.require_own(context.ledger, name)
    disk = _visible_disk(context, body.disk)
    action = NodeAction(name, body.action, tuple(body.nodes), body.max_in_flight, disk)
    by = caller.current().identity
    return node_actions.start_action(
        context.ledger, action, body.plan, by, permit=lambda tx: teams.require_own_in_tx(tx, name)
    )


def _visible_disk(context: AppContext, intent: str | None) -> str | None:
    if intent is not None:
        _require_visible(context, intent)
    return intent


def render_text(made: Plan, detail: bool) -> str:
    return render.text(made, detail)


def deploy(context: AppContext, name: str, body: DeployBody, before_storing: Callable[[], None] = lambda: None) -> int:
    """`before_storing` is called inside the transaction that stores the task, before its first change."""
    teams.require_assignable(context.ledger, name, body.team)
    request = PlanRequest(
        deployment=name,
        manifest=body.manifest,
        manifest_file=body.manifest_file,
        cloud_config=clouds.seal_given_config(context, body.cloud_config, body.config_file),
        config_file=body.config_file,
        recreate=body.recreate,
        nodes=tuple(body.nodes),
        reuse_disks=body.reuse_disks,
        auto_anti_affinity=context.settings["auto_anti_affinity"],
        meltdown=_meltdown(context),
    )

    def permit(tx: Tx) -> None:
        before_storing()
        teams.assign_team(tx, name, body.team)

    return start.deploy(context.ledger, request, body.plan, caller.current().identity, permit=permit)


def delete(context: AppContext, name: str, delete_disks: bool, plan_id: str | None) -> int:
    teams.require_own(context.ledger, name)
    body = PlanBody(deployment=name, delete=True, delete_disks=delete_disks)
    request, by = _request(context, body), caller.current().identity
    return start.deploy(context.ledger, request, plan_id, by, permit=lambda tx: teams.require_own_in_tx(tx, name))


def cancel(context: AppContext, task: int) -> None:
    with context.ledger.read() as tx:
        state = tasks.state(tx, task)
    if state not in tasks.UNFINISHED:
        raise Conflict(
            f"task {task} has ended already",
            why=f"it is {state}",
            remedy="nothing is left to cancel",
            details={"task_id": task},
        )
    start.cancel(context.ledger, task)


def delete_disks(context: AppContext, intents: Sequence[str]) -> int:
    for intent in intents:
        _require_visible(context, intent)
    return start.delete_kept_disks(context.ledger, intents, caller.current().identity)


def settle(context: AppContext, intent: str, cid: str | None) -> None:
    _require_visible(context, intent)
    settle_unknown.settle(context.ledger, intent, cid)


def move_node(context: AppContext, uuid: str, group: str | None, agree: Permit) -> None:
    with context.ledger.read() as tx:
        nodes.one(tx, uuid)  # refuses one that the caller cannot see
    regroup.move_node(context.ledger, uuid, group, agree)


def enroll(context: AppContext, body: Enrollment) -> str:
    return enroll_machine(context.ledger, body, caller.current().identity)


def forget_node(context: AppContext, uuid: str) -> None:
    operations.forget(context.ledger, uuid, caller.current().identity)


def destroy_node(context: AppContext, uuid: str) -> int:
    return operations.destroy(context.ledger, uuid, caller.current().identity)


def look(context: AppContext, deployment: str | None, node: str | None) -> int:
    if deployment is not None and node is not None:
        raise UsageError("look at which?", remedy="name either a deployment or a node")
    if is_limited() and deployment is None and node is None:
        raise UsageError("which deployment?", remedy="name one, or a node: a look at all is not for a single team")
    with context.ledger.read() as tx:
        if deployment is not None:
            deployments.one(tx, deployment)  # refuses one that the caller cannot see
        uuid = nodes.one(tx, node)["uuid"] if node is not None else None
    task = looks.look(context.ledger, _meltdown(context), Scope(deployment, uuid), caller.current().identity)
    if task is None:
        raise UsageError("there is no cloud to look at", remedy="set a cloud config: coterie clouds set FILE")
    return task


def repair_group(context: AppContext, intent: str) -> int:
    return operations.repair_group(context.ledger, intent, caller.current().identity)


def grant(context: AppContext, cloud: str, user: str, groups: bool) -> int:
    return operations.grant(context.ledger, cloud, user, groups, caller.current().identity)


def prove(context: AppContext, cloud: str) -> int:
    return operations.prove(context.ledger, cloud, caller.current().identity)


def audit(context: AppContext, deployment: str | None) -> dict[str, Any]:
    if is_limited() and deployment is None:
        raise UsageError("which deployment?", remedy="name one: the audit of all is not for a single team")
    if deployment is not None:
        with context.ledger.read() as tx:
            deployments.one(tx, deployment)
    return placement_audit(context.ledger, deployment)


def _request(context: AppContext, body: PlanBody) -> PlanRequest:
    return PlanRequest(
        deployment=body.deployment,
        manifest=body.manifest,
        manifest_file=body.manifest_file,
        cloud_config=clouds.seal_given_config(context, body.cloud_config, body.config_file),
        config_file=body.config_file,
        delete=body.delete,
        delete_disks=body.delete_disks,
        recreate=body.recreate,
        nodes=tuple(body.nodes),
        reuse_disks=body.reuse_disks,
        auto_anti_affinity=context.settings["auto_anti_affinity"],
        meltdown=_meltdown(context),
    )


def _meltdown(context: AppContext) -> Look:
    """What counts as one by the settings."""
    return Look(context.settings["meltdown_percent"], context.settings["meltdown_nodes"])


def _deployment_name(body: PlanBody) -> str | None:
    if body.manifest is None:
        return body.deployment
    try:
        return load_deployment(body.manifest, body.manifest_file).value.name
    except InvalidDocument:
        return body.deployment  # planning reports the mistakes


def _require_visible(context: AppContext, intent: str) -> None:
    with context.ledger.read() as tx:
        objects.one(tx, intent)


_LARGEST = 4 * 2**20


class DeployBody(BaseModel):
    """Body of a deploy: a manifest, and optionally the cloud config to go with it and the plan that was confirmed."""

    model_config = ConfigDict(extra="forbid")
    manifest: str = Field(max_length=_LARGEST, description="YAML")
    manifest_file: str = Field("manifest", max_length=1000, description="the name that mistakes are reported under")
    cloud_config: str | None = Field(None, max_length=_LARGEST, description="YAML; null: the one that is set")
    config_file: str = Field("cloud-config", max_length=1000)
    recreate: bool = Field(False, description="recreate VMs although nothing about them changed")
    nodes: list[Word] = Field(default_factory=list, max_length=10_000, description="only these nodes, as group/index")
    reuse_disks: bool = Field(False, description="new nodes take the kept disks of nodes of their names")
    plan: str | None = Field(None, max_length=255, description="id of the confirmed plan; another one now → 412")
    team: str | None = Field(
        None, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$", description="team that the deployment belongs to"
    )


class ActionBody(BaseModel):
    """Work on nodes by their names, without a manifest. `attach` gives one node a kept disk in the place of its own."""

    model_config = ConfigDict(extra="forbid")
    action: Verb
    nodes: list[Word] = Field(min_length=1, max_length=10_000, description="as group/index")
    max_in_flight: int | None = Field(
        None, ge=1, le=10_000, description="nodes of an instance group at a time; null: as its manifest says"
    )
    disk: Word | None = Field(None, description="intent of the kept disk to attach")
    plan: str | None = Field(None, max_length=255, description="id of the confirmed plan; another one now → 412")


class PlanBody(BaseModel):
    """Body of a plan: a deploy (with `manifest`), a delete (with `deployment` and `delete`), or work on nodes (with
    `deployment`, `nodes` and `action`)."""

    model_config = ConfigDict(extra="forbid")
    deployment: Word | None = None
    manifest: str | None = Field(None, max_length=_LARGEST, description="YAML")
    manifest_file: str = Field("manifest", max_length=1000)
    cloud_config: str | None = Field(None, max_length=_LARGEST, description="YAML; null: the one that is set")
    config_file: str = Field("cloud-config", max_length=1000)
    delete: bool = False
    delete_disks: bool = False
    recreate: bool = False
    nodes: list[Word] = Field(default_factory=list, max_length=10_000)
    reuse_disks: bool = False
    action: Verb | None = None
    max_in_flight: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="of `action`: nodes of a group at a time; null: as its manifest says",
    )
    disk: Word | None = Field(None, description="of `action`: intent of the kept disk to attach")
