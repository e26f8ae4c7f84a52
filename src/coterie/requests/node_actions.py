"""Work on nodes by their names, without a manifest: recreate, restart, stop, start, exchange the disk. Each goes by a
plan that is made from the specs by which the nodes were made last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from coterie.cpi.contract import Capabilities
from coterie.errors import Conflict, NotFound, Refused, StalePlan
from coterie.group.policy import by_index
from coterie.ids import Ids
from coterie.ledger.rows import clouds, deployments, groups, identity, nodes, objects, snapshot
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.store import Ledger, Tx
from coterie.plan.model import Action, Change, DiskRemoval, KeptDisk, NodeChange, Plan
from coterie.requests.accept import PlanRows
from coterie.requests.action_rollouts import plan_rollouts
from coterie.requests.ask_clouds import ask
from coterie.requests.draft import Permit, refuse_alarmed
from coterie.requests.last_made import as_made_last, tell_return
from coterie.requests.regroup import Inheritance, require_conductors

Verb = Literal["recreate", "restart", "stop", "start", "attach"]


@dataclass(frozen=True, slots=True)
class NodeAction:
    """`nodes`: GROUP/INDEX. `max_in_flight`: of each instance group; None: as its manifest says. `disk`: the intent of
    the kept disk to attach."""

    deployment: str
    verb: Verb
    nodes: tuple[str, ...]
    max_in_flight: int | None = None
    disk: str | None = None


def plan_action(ledger: Ledger, action: NodeAction) -> Plan:
    """What would be done. Changes no cloud and no deployment; the only rows that it writes are dated facts."""
    return _draft(ledger, action)[0]


def start_action(ledger: Ledger, action: NodeAction, expect: str | None, by: str | None, permit: Permit) -> int:
    """The task that does it. `expect`: the plan that was confirmed; another one → StalePlan."""
    plan, fingerprint = _draft(ledger, action)
    if expect is not None and plan.id != expect:
        raise StalePlan(
            f"plan {expect} is out of date",
            why=f"the same request now gives plan {plan.id}",
            remedy="look at the new plan and confirm that one",
        )
    with ledger.write() as tx:
        deployments.lock(tx, action.deployment)
        permit(tx)
        refuse_alarmed(tx, plan)
        if snapshot.fingerprint(tx, action.deployment) != fingerprint:
            raise StalePlan(f"deployment {action.deployment} changed meanwhile", remedy="plan and confirm again")
        kind = "attach-disk" if action.verb == "attach" else f"{action.verb}-nodes"
        return PlanRows(tx, plan, Ids(), identity.director(tx).name, Inheritance({})).write(kind, by)


def _draft(ledger: Ledger, action: NodeAction) -> tuple[Plan, tuple[object, ...]]:
    with ledger.read() as tx:
        deployment = deployments.get(tx, action.deployment)
        if deployment is None:
            raise NotFound(f"there is no deployment {action.deployment}", remedy="see `coterie deployments`")
        chosen = _choose(tx, action)
        configured = clouds.all_clouds(tx)
    able = _ask_capabilities(ledger, configured, chosen)
    with ledger.read() as tx:
        fingerprint = snapshot.fingerprint(tx, action.deployment)
        users = groups.users_of(tx, action.deployment)
        disk = _require_kept_disk(tx, action.disk) if action.disk is not None else None
        owned = _disks_of(tx, chosen)
        planner = _Planner(action.verb, users, able, disk, owned)
        changes = tuple(change for node in chosen if (change := planner.change(node)) is not None)
        rollouts = plan_rollouts(tx, deployment, changes, action.max_in_flight, able)
        _require_server_groups(tx, changes)
        _require_images(tx, changes)
        plan = Plan(action.deployment, changes, rollouts, users=None, notes=tuple(planner.notes))
        plan = require_conductors(tx, action.deployment, configured, [], plan)
        refuse_alarmed(tx, plan)
    return plan, fingerprint


def _choose(tx: Tx, action: NodeAction) -> list[NodeRow]:
    present = {node.name: node for node in nodes.of_deployment(tx, action.deployment)}
    unknown = sorted(set(action.nodes) - present.keys(), key=by_index)
    if unknown:
        raise NotFound(
            f"deployment {action.deployment} has no node {', '.join(unknown)}",
            remedy=f"see `coterie nodes --deployment {action.deployment}`",
        )
    return [present[name] for name in sorted(set(action.nodes), key=by_index)]


def _ask_capabilities(
    ledger: Ledger, configured: Mapping[str, CloudRow], chosen: Sequence[NodeRow]
) -> dict[str, Capabilities]:
    names = sorted({node.cloud for node in chosen})
    lost = [name for name in names if name not in configured]
    if lost:
        raise Conflict(f"cloud {', '.join(lost)} is not configured", remedy="put it back: coterie clouds set FILE")
    answers = ask(ledger, [(configured[name], "capabilities", {}) for name in names])
    return {name: Capabilities.of_wire(found) for name, found in zip(names, answers, strict=True)}


def _require_kept_disk(tx: Tx, intent: str) -> KeptDisk:
    row = objects.get(tx, intent)
    if row is None or row.kind != "disk":
        raise NotFound(f"there is no disk {intent}", remedy="see `coterie disks`")
    objects.refuse_attached(row)
    if row.state != "kept" or row.cid is None:
        raise Conflict(
            f"disk {row.cid or intent} is {row.state}, not kept",
            why=f"it belongs to {row.ref}" if row.node else "",
            remedy="only a disk that no node uses can be attached: coterie disks --state kept",
        )
    return snapshot.kept_disk(row)


def _disks_of(tx: Tx, chosen: Sequence[NodeRow]) -> dict[str, ObjectRow]:
    """By uuid of the node."""
    owned = ((node.uuid, objects.disks_of_node(tx, node.uuid)[0]) for node in chosen)
    return {uuid: row for uuid, row in owned if row is not None}


def _require_images(tx: Tx, changes: Sequence[Change]) -> None:
    for change in changes:
        if change.action in ("recreate", "start") and isinstance(change.details, NodeChange):
            stemcell = change.details.spec.stemcell
            if not objects.image_on_its_way(tx, change.cloud, stemcell):
                raise Refused(
                    f"{change.subject}: stemcell {stemcell} is not in cloud {change.cloud} any more",
                    remedy="deploy the manifest, which brings it there",
                )


def _require_server_groups(tx: Tx, changes: Sequence[Change]) -> None:
    wanted: dict[str, str] = {}  # intent → one of its nodes
    for change in changes:
        group = change.details.server_group if isinstance(change.details, NodeChange) else None
        if change.action in ("recreate", "start") and group is not None and group.intent is not None:
            wanted.setdefault(group.intent, change.subject)
    for intent, subject in wanted.items():
        row = groups.get(tx, intent)
        if row is None or row.cid is None:
            raise Refused(
                f"{subject}: its server group {row.name if row else intent} is not there",
                remedy="deploy the manifest, which creates it",
            )


class _Planner:
    """The change of each node, or why it can have none."""

    def __init__(
        self,
        verb: Verb,
        users: Mapping[tuple[str, str], str],
        able: Mapping[str, Capabilities],
        disk: KeptDisk | None,
        owned: Mapping[str, ObjectRow],
    ) -> None:
        self._users = users
        self._able = able
        self._disk = disk
        self._owned = owned
        self._plan: Callable[[NodeRow, NodeChange], Change | None] = {
            "recreate": self._recreate,
            "restart": self._restart,
            "stop": self._stop,
            "start": self._start,
            "attach": self._attach,
        }[verb]
        self.notes: list[str] = []

    def change(self, node: NodeRow) -> Change | None:
        group = node.server_group if node.vm_intent else self._users.get((node.instance_group, node.cloud))
        return self._plan(node, as_made_last(node, group, self._owned.get(node.uuid)))

    def _recreate(self, node: NodeRow, details: NodeChange) -> Change:
        if node.state == "stopped":
            raise Refused(f"node {node.name} is stopped", remedy=f"start it: coterie nodes start {_path(node)}")
        return _change("recreate", node, "asked for", details)

    def _restart(self, node: NodeRow, details: NodeChange) -> Change:
        gap = self._able[node.cloud].unsupported.get("reboot_vm")
        if gap is not None:
            raise Refused(
                f"cloud {node.cloud} cannot reboot VMs", why=gap.why, remedy="recreate the node: coterie nodes recreate"
            )
        self._require_made(node)
        return _change("restart", node, "its VM is rebooted", details)

    def _stop(self, node: NodeRow, details: NodeChange) -> Change | None:
        if node.state == "stopped":
            self.notes.append(f"{node.name} is stopped already")
            return None
        own = self._owned.get(node.uuid)
        disk = f"; its disk of {own.size_mb} MiB stays with it" if own else ""
        return _change("stop", node, f"its VM is deleted{disk}", details)

    def _start(self, node: NodeRow, details: NodeChange) -> Change | None:
        if node.state == "up":
            self.notes.append(f"{node.name} is up: nothing is done to it")
            return None
        if node.state == "stopped":
            return _change("start", node, "it was stopped", details, destructive=False)
        return _change("start", node, f"it is {node.state}", details, destructive=node.vm_intent is not None)

    def _attach(self, node: NodeRow, details: NodeChange) -> Change:
        disk, wanted = self._disk, details.spec.disk
        if disk is None:
            raise Refused("which disk?", remedy="name a kept one: coterie disks --state kept")
        self._require_made(node)
        if wanted is None:
            raise Refused(
                f"node {node.name} has no persistent disk by its manifest",
                why="the next deploy would take the disk away again",
                remedy="give its instance group persistent_disk, and deploy it",
            )
        if disk.cloud != node.cloud or disk.az not in (node.az, None):
            raise Refused(
                f"disk {disk.cid} cannot be attached to {node.name}",
                why=f"it is in {disk.cloud}/{disk.az}, and the node is in {node.cloud}/{node.az}",
                remedy="choose a disk of the node's az: coterie disks --state kept",
            )
        if disk.size_mb > wanted.size_mb:
            raise Refused(
                f"disk {disk.cid} of {disk.size_mb} MiB is larger than the {wanted.size_mb} MiB of {node.name}",
                why="disks cannot shrink",
                remedy=f"deploy it with persistent_disk: {disk.size_mb} first",
            )
        if disk.size_mb < wanted.size_mb and not self._able[node.cloud].resize_disk:
            raise Refused(
                f"disk {disk.cid} of {disk.size_mb} MiB cannot grow to the {wanted.size_mb} MiB of {node.name}",
                why=f"cloud {node.cloud} cannot change the size of disks",
                remedy=f"choose a disk of {wanted.size_mb} MiB",
            )
        why = f"gets the kept disk {disk.cid} of {disk.name} ({disk.size_mb} MiB)"
        own = self._owned.get(node.uuid)
        if own is None:
            return _change("update", node, why, replace(details, takes=disk, attaches=True))
        if own.state != "live" or own.cid is None:
            raise Refused(
                f"the disk that {node.name} has is {own.state}",
                remedy=f"deploy the manifest of {node.deployment} first, which finds out what became of it",
            )
        replaced = DiskRemoval(own.intent, own.cid)
        details = replace(details, takes=disk, attaches=True, replaces_disk=replaced)
        return _change("update", node, f"{why}; its own disk of {own.size_mb} MiB is kept", details)

    def _require_made(self, node: NodeRow) -> None:
        """Flows that leave the VM end with the node as up: nothing that was begun with it may be unfinished."""
        if node.state in ("up", "dead") or node.is_unhealthy:
            return
        raise Refused(
            f"node {node.name} is {node.state}",
            why="it has no VM that is known to be as it was made last",
            remedy=f"start it: coterie nodes start {_path(node)}"
            if node.state == "stopped"
            else f"deploy the manifest of {node.deployment}, or make it anew: coterie nodes recreate {_path(node)}",
        )


def _change(action: Action, node: NodeRow, why: str, details: NodeChange, *, destructive: bool = True) -> Change:
    reason = "; ".join(part for part in (why, tell_return(details)) if part)
    return Change(action, "node", node.name, reason, node.cloud, details, node.az, destructive=destructive)


def _path(node: NodeRow) -> str:
    return f"{node.deployment}/{node.name}"
