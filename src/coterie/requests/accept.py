"""Turns a plan into rows: nodes, groups, intents, stages and steps, all in the transaction that accepts the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from coterie.errors import CoterieError, StalePlan
from coterie.flows.disk import DELETE_DISK, DeleteDisk
from coterie.flows.group import CREATE_GROUP, DELETE_GROUP, UPDATE_GROUP, CreateGroup, DeleteGroup, UpdateGroup
from coterie.flows.node import (
    ATTACH_DISK,
    CREATE_NODE,
    DELETE_NODE,
    RECREATE_NODE,
    RESTART_NODE,
    STOP_NODE,
    UPDATE_NODE,
)
from coterie.flows.node_params import (
    AttachDisk,
    CreateNode,
    DeleteNode,
    NodeProgress,
    NodeToMake,
    RecreateNode,
    RestartNode,
    StopNode,
    UpdateNode,
)
from coterie.flows.stemcell import DELETE_STEMCELL, UPLOAD_STEMCELL, DeleteStemcell, UploadProgress, UploadStemcell
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import (
    clouds,
    conductor_groups,
    deletion_candidates,
    deployments,
    groups,
    holds,
    nodes,
    objects,
)
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.deployments import NewNode
from coterie.ledger.store import Tx
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.plan.model import (
    Change,
    DiskRemoval,
    GroupChange,
    GroupRemoval,
    NodeChange,
    NodeRemoval,
    Plan,
    ServerGroupRef,
    StemcellRemoval,
    StemcellUpload,
)
from coterie.plan.stages import Stage, stages
from coterie.requests.regroup import Inheritance

Details = TypeVar("Details")


class PlanRows:
    """Writes the rows of one plan, inside the transaction that accepts it."""

    def __init__(self, tx: Tx, plan: Plan, ids: Ids, director: str, inheritance: Inheritance) -> None:
        self._tx = tx
        self._plan = plan
        self._ids = ids
        self._director = director
        self._inheritance = inheritance
        self._clouds: Mapping[str, CloudRow] = {}
        self._conductor_groups: Mapping[str, str] = {}  # of each node
        self._new_groups: dict[str, str] = {}  # subject → intent
        self._new_nodes: dict[str, str] = {}  # subject → uuid
        self._new_images: dict[str, str] = {}  # subject → intent

    def write(self, kind: str, requested_by: str | None) -> int:
        """The task, with all that its steps need."""
        self._clouds = clouds.all_clouds(self._tx)
        self._add_groups()
        if self._plan.users is not None:
            users = [(name, self._group_intent(ref) or "") for name, ref in self._plan.users]
            groups.set_users(self._tx, self._plan.deployment, users)
        self._rename_nodes()
        self._add_nodes()
        self._give_disks()
        self._conductor_groups = conductor_groups.of_nodes(self._tx, self._plan.deployment)
        self._add_images()
        self._mark_disks()
        summary = {"counts": self._plan.counts(), "plan": self._plan.id}
        return tasks.create(
            self._tx,
            NewTask(
                kind,
                self._plan.deployment,
                [self._stage(stage) for stage in stages(self._plan)],
                plan=summary,
                requested_by=requested_by,
                opening=", ".join(f"{count} to {action}" for action, count in self._plan.counts().items()),
                details=summary,
            ),
        )

    # -- rows before steps: every intent is in the ledger before any conductor can see its step --

    def _add_groups(self) -> None:
        for change, details in self._changes(GroupChange):
            if details.intent is None:
                intent = self._ids.intent()
                self._new_groups[change.subject] = intent
                groups.add(self._tx, intent, details.metadata.wire(), name=details.name, cloud=change.cloud)

    def _group_intent(self, ref: ServerGroupRef | None) -> str | None:
        return None if ref is None else ref.intent or self._new_groups[ref.new or ""]

    def _rename_nodes(self) -> None:
        """Their VMs learn the new names by their steps."""
        groups.rename(self._tx, self._plan.server_group_names)
        renamed = [(node, change) for change, node in self._changes(NodeChange) if node.node and node.renamed_from]
        deployments.rename_nodes(
            self._tx,
            [(node.node or "", node.instance_group, node.index, node.renamed_from or "") for node, _ in renamed],
        )
        for node, change in renamed:
            objects.rename_of_node(self._tx, node.node or "", change.subject)

    def _give_disks(self) -> None:
        """A kept disk is the node's from now on: no other request can take or delete it. That of a node which runs is
        exchanged by its step."""
        for change, node in self._changes(NodeChange):
            disk = node.takes
            if disk is None:
                continue
            holds.refuse_held(self._tx, holds.of_deployment(disk.deployment))
            uuid = node.node or self._new_nodes[change.subject]
            if node.attaches:
                self._begin_attach(uuid, node)
            if not objects.give_disk(self._tx, disk.intent, uuid, self._plan.deployment, change.subject):
                raise StalePlan(f"disk {disk.cid} of {disk.name} is not kept any more", remedy="plan and confirm again")
            writes.execute(self._tx, deletion_candidates.remove(change.cloud, "disk", disk.cid))

    def _begin_attach(self, uuid: str, node: NodeChange) -> None:
        """Until its step begins, the node is not as the ledger says: should it be cancelled, a deploy recreates it."""
        problem = {
            "code": "disk_exchange",
            "what": "it has not got the disk yet that was attached to it",
            "remedy": "deploy again, which makes it anew with that disk",
        }
        writes.execute(self._tx, nodes.set_state(uuid, "failing", problem))
        if node.replaces_disk is not None:
            writes.execute(self._tx, objects.begin_replace(node.replaces_disk.intent))

    def _add_nodes(self) -> None:
        new, moved = [], []
        for change, node in self._changes(NodeChange):
            if node.node is None:
                uuid = self._ids.uuid()
                self._new_nodes[change.subject] = uuid
                addresses = dict(node.addresses)
                place = (node.instance_group, node.index, node.spec.az, change.cloud)
                new.append(NewNode(uuid, *place, addresses, self._inheritance.of_new(node)))
            elif node.leaves or node.gains:
                # The old address stays taken until the old VM is gone.
                moved.append((node.node, dict(node.gains)))
        conductor_groups.inherit(self._tx, self._inheritance.find_changes(self._tx, self._plan.deployment, self._plan))
        deployments.free_unused_addresses(self._tx, self._plan.deployment)
        deployments.reserve(self._tx, self._plan.deployment, moved)
        deployments.add_nodes(self._tx, self._plan.deployment, new)

    def _add_images(self) -> None:
        rows = []
        for change, image in self._changes(StemcellUpload):
            if image.intent is not None:
                self._new_images[change.subject] = image.intent
            elif not objects.image_on_its_way(self._tx, change.cloud, image.stemcell):
                intent = self._ids.intent()
                self._new_images[change.subject] = intent
                rows.append(objects.intend(intent, "image", change.cloud, ref=image.stemcell))
            # else: another deployment has begun the upload since the plan was made
        writes.execute(self._tx, *rows)
        self._require_images()

    def _require_images(self) -> None:
        """A node would wait in vain for an image that a cleanup deleted since the plan was made."""
        changes = self._changes(NodeChange)
        needed = {
            (c.cloud, node.spec.stemcell)
            for c, node in changes
            if c.action in ("create", "recreate", "start") or node.stays_stopped
        }
        for cloud, ref in sorted(needed):
            coming = f"{ref}@{cloud}" in self._new_images
            if not coming and not objects.image_on_its_way(self._tx, cloud, ref):
                raise StalePlan(f"stemcell {ref} left {cloud} while this was planned", remedy="plan and confirm again")

    def _mark_disks(self) -> None:
        for change, disk in self._changes(DiskRemoval):
            if not objects.begin_delete_kept(self._tx, disk.intent):
                raise StalePlan(f"disk {change.subject} is not kept any more", remedy="plan and confirm again")

    def _changes(self, kind: type[Details]) -> Iterator[tuple[Change, Details]]:
        return ((change, change.details) for change in self._plan.changes if isinstance(change.details, kind))

    # -- steps --

    def _stage(self, stage: Stage) -> NewStage:
        return NewStage(
            stage.name,
            [self._step(change) for change in stage.changes if self._is_needed(change)],
            stage.needs,
            stage.max_in_flight,
            stage.stop_on_failure,
        )

    def _is_needed(self, change: Change) -> bool:
        return not isinstance(change.details, StemcellUpload) or change.subject in self._new_images

    def _step(self, change: Change) -> NewStep:
        subject, cloud = change.subject, self._clouds[change.cloud]
        match change.details:
            case NodeChange() as node:
                return self._node_step(change, node)
            case NodeRemoval(node=uuid, delete_disks=delete_disks):
                params = DeleteNode(change.reason, delete_disks)
                return DELETE_NODE.step(params, subject, cloud, node=uuid, group=self._conductor_groups[uuid])
            case GroupChange() as group if change.action == "update":
                update = UpdateGroup(group.intent or "", group.cid or "", change.reason, group.metadata)
                return UPDATE_GROUP.step(update, subject, cloud)
            case GroupChange() as group:
                create = CreateGroup(group.intent or self._new_groups[subject], group.metadata)
                return CREATE_GROUP.step(create, subject, cloud)
            case GroupRemoval(intent=intent):
                return DELETE_GROUP.step(DeleteGroup(intent), subject, cloud)
            case StemcellUpload() as image:
                upload = UploadStemcell(image.stemcell, again=image.intent is not None)
                progress = UploadProgress(self._new_images[subject])
                return UPLOAD_STEMCELL.step(upload, subject, cloud, progress=progress)
            case StemcellRemoval() as image:
                return DELETE_STEMCELL.step(DeleteStemcell(image.stemcell, image.intent), subject, cloud)
            case DiskRemoval() as disk:
                return DELETE_DISK.step(DeleteDisk(disk.intent, disk.cid), subject, cloud)

    def _node_step(self, change: Change, node: NodeChange) -> NewStep:
        subject, cloud = change.subject, self._clouds[change.cloud]
        uuid = node.node or self._new_nodes[subject]
        group = self._conductor_groups[uuid]
        made = NodeToMake(
            director=self._director,
            deployment=self._plan.deployment,
            instance_group=node.instance_group,
            index=node.index,
            spec=node.spec,
            addresses=dict(node.addresses),
            server_group=self._group_intent(node.server_group),
            reason=change.reason,
        )
        progress = NodeProgress(leaves=dict(node.leaves))
        match change.action:
            case "create":
                create = CreateNode(made, again=node.node is not None)
                progress.disk = node.takes.intent if node.takes else None
                return CREATE_NODE.step(create, subject, cloud, node=uuid, group=group, progress=progress)
            case "recreate" | "start":
                recreate = RecreateNode(made, node.leaves_disk)
                return RECREATE_NODE.step(recreate, subject, cloud, node=uuid, group=group, progress=progress)
            case "update" if node.attaches:
                attach = AttachDisk(made, node.replaces_disk.cid if node.replaces_disk else None)
                return ATTACH_DISK.step(attach, subject, cloud, node=uuid, group=group)
            case "restart":
                return RESTART_NODE.step(RestartNode(made), subject, cloud, node=uuid, group=group)
            case "stop":
                return STOP_NODE.step(StopNode(made), subject, cloud, node=uuid, group=group, progress=progress)
            case "update" if node.stays_stopped:
                stop = StopNode(made, node.leaves_disk)
                return STOP_NODE.step(stop, subject, cloud, node=uuid, group=group, progress=progress)
            case "update":
                update = UpdateNode(made, bool(node.regrouped), bool(node.disk_changes))
                return UPDATE_NODE.step(update, subject, cloud, node=uuid, group=group, progress=progress)
        raise CoterieError(f"a plan cannot {change.action} a node")
