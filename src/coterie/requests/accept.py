"""Turns a plan into rows: nodes, groups, intents, stages and steps, all in the transaction that accepts the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.errors import StalePlan
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import clouds, deployments, groups, nodes, objects
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.deployments import NewNode
from coterie.ledger.store import Tx
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.plan.model import Change, Plan
from coterie.plan.stages import Stage, stages


class Execution:
    """One plan on its way into the ledger."""

    def __init__(self, tx: Tx, plan: Plan, ids: Ids, director: str) -> None:
        self._tx = tx
        self._plan = plan
        self._ids = ids
        self._director = director
        self._clouds: Mapping[str, CloudRow] = clouds.all_clouds(tx)
        self._own_groups = nodes.own_groups(tx, plan.deployment)
        self._new_groups: dict[str, str] = {}
        self._new_nodes: dict[str, str] = {}
        self._new_images: dict[str, str] = {}

    def start(self, kind: str, requested_by: str | None) -> int:
        self._add_groups()
        if self._plan.users is not None:
            users = [(name, self.group_of(ref) or "") for name, ref in self._plan.users]
            groups.set_users(self._tx, self._plan.deployment, users)
        self._add_nodes()
        self._add_images()
        self._request_disk_deletes()
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

    def group_of(self, ref: Mapping[str, str] | None) -> str | None:
        """The intent that a change's server group stands for, now that new ones have theirs."""
        if ref is None:
            return None
        return ref.get("intent") or self._new_groups[ref["new"]]

    # -- rows before steps: every intent is in the ledger before any conductor can see its step --

    def _add_groups(self) -> None:
        for change in self._of("group", "create", "adopt"):
            if "intent" in change.details:
                continue
            intent = self._ids.intent()
            self._new_groups[change.subject] = intent
            details = change.details
            groups.add(self._tx, intent, details["metadata"], name=details["name"], cloud=change.cloud)

    def _add_nodes(self) -> None:
        new, moved = [], []
        for change in self._of("node", "create", "recreate", "update"):
            details = change.details
            if change.action == "create":
                uuid = self._ids.uuid()
                self._new_nodes[change.subject] = uuid
                new.append(
                    NewNode(
                        uuid,
                        details["instance_group"],
                        details["index"],
                        details["wish"]["az"],
                        change.cloud,
                        details["addresses"],
                    )
                )
            elif details["leaves"] or details["gains"]:
                # The old address stays taken until the old VM is gone.
                moved.append((details["node"], details["gains"]))
        deployments.reserve(self._tx, self._plan.deployment, moved)
        deployments.add_nodes(self._tx, self._plan.deployment, new)

    def _add_images(self) -> None:
        rows = []
        for change in self._of("stemcell", "create"):
            stemcell, again = change.details["stemcell"], change.details.get("intent")
            if again is None and objects.image_on_its_way(self._tx, change.cloud, stemcell):
                continue  # another deployment has begun it since the plan was made
            intent = again or self._ids.intent()
            self._new_images[change.subject] = intent
            if again is None:
                rows.append(objects.intend(intent, "image", change.cloud, ref=stemcell))
        writes.execute(self._tx, *rows)
        self._require_images()

    def _require_images(self) -> None:
        """An image that a cleanup took out since the plan was made would be waited for in vain."""
        made = self._of("node", "create", "recreate")
        for cloud, ref in sorted({(change.cloud, change.details["wish"]["stemcell"]) for change in made}):
            coming = f"{ref}@{cloud}" in self._new_images
            if not coming and not objects.image_on_its_way(self._tx, cloud, ref):
                raise StalePlan(f"stemcell {ref} left {cloud} while this was planned", remedy="plan and confirm again")

    def _request_disk_deletes(self) -> None:
        doomed = [objects.begin_delete(c.details["intent"], c.details["cid"]) for c in self._of("disk", "delete")]
        writes.execute(self._tx, *doomed)

    def _of(self, kind: str, *actions: str) -> list[Change]:
        return [change for change in self._plan.changes if change.kind == kind and change.action in actions]

    # -- steps --

    def _stage(self, stage: Stage) -> NewStage:
        return NewStage(
            stage.name,
            [self._step(change) for change in stage.changes if self._needed(change)],
            stage.needs,
            stage.max_in_flight,
            stage.stop_on_failure,
        )

    def _needed(self, change: Change) -> bool:
        return (change.kind, change.action) != ("stemcell", "create") or change.subject in self._new_images

    def _step(self, change: Change) -> NewStep:
        cloud = self._clouds[change.cloud]
        node = self._node(change)
        return NewStep(
            flow=_FLOWS[change.kind, change.action],
            label="begin",
            subject=change.subject,
            data=self._data(change),
            node=node,
            cloud=change.cloud,
            driver=cloud.driver,
            conductor_group=self._own_groups.get(node or "", cloud.conductor_group),
        )

    def _node(self, change: Change) -> str | None:
        if change.kind != "node":
            return None
        return change.details.get("node") or self._new_nodes[change.subject]

    def _data(self, change: Change) -> dict[str, Any]:
        data = {"reason": change.reason, **change.details}
        if change.kind == "node" and change.action != "delete":
            data["server_group"] = self.group_of(change.details["server_group"])
            data.update(director=self._director, deployment=self._plan.deployment)
        if change.kind == "group" and change.action in ("create", "adopt"):
            data.setdefault("intent", self._new_groups.get(change.subject))
        if change.kind == "stemcell" and change.action == "create":
            data.update(intent=self._new_images[change.subject], again="intent" in change.details)
        return data


_FLOWS = {
    ("stemcell", "create"): "stemcell.upload",
    ("stemcell", "delete"): "stemcell.delete",
    ("group", "create"): "group.create",
    ("group", "adopt"): "group.create",
    ("group", "update"): "group.update",
    ("group", "delete"): "group.delete",
    ("group", "leave"): "group.delete",
    ("node", "create"): "node.create",
    ("node", "recreate"): "node.recreate",
    ("node", "update"): "node.update",
    ("node", "delete"): "node.delete",
    ("disk", "delete"): "disk.delete",
}
