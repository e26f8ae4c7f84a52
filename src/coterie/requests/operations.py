"""Small requests of a person: repair a server group, grant rights, forget or destroy an enrolled node, abandon."""

from __future__ import annotations

from coterie.cpi.contract import NotSupported
from coterie.errors import Conflict, NotFound
from coterie.flows.enrolled import DESTROY_NODE, DestroyNode
from coterie.flows.grant import GRANT, Grant
from coterie.flows.group import REPAIR_GROUP, RepairGroup
from coterie.flows.prove import PROVE, Prove
from coterie.ledger import writes
from coterie.ledger.rows import clouds, conductor_groups, deployments, enrolled, events, groups, nodes
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.tasks import NewStage, NewTask
from coterie.requests.ask_clouds import ask
from coterie.requests.enroll import unknown_cloud

DEEP_CHECK = "deep-check-"  # and the name of the cloud: the deployment of a deep check


def repair_group(ledger: Ledger, intent: str, by: str | None) -> int:
    """Have the cloud make again what it lost of a group."""
    with ledger.write() as tx:
        row = groups.get(tx, intent)
        if row is None or row.state == "gone":
            raise NotFound(f"there is no server group {intent}", remedy="see `coterie groups`")
        if row.state not in ("live", "missing"):
            raise Conflict(f"server group {row.name} is {row.state}", remedy="wait for its task, or deploy again")
        step = REPAIR_GROUP.step(RepairGroup(intent), f"{row.name}@{row.cloud}", _cloud(tx, row.cloud))
        return tasks.create(tx, NewTask("repair-group", row.deployment, [NewStage("repair", [step])], requested_by=by))


def grant(ledger: Ledger, cloud: str, user: str, groups_too: bool, by: str | None) -> int:
    """Give a user of the cloud the rights that its driver needs. Done with the cloud's configured credentials."""
    with ledger.read() as tx:
        row = _cloud(tx, cloud)
    (able,) = ask(ledger, [(row, "capabilities", {})])
    if not able["grants"]:
        raise NotSupported(
            f"cloud {cloud}: its driver {row.driver} cannot grant rights",
            remedy="have the cloud's administrator give them",
        )
    with ledger.write() as tx:
        step = GRANT.step(Grant(user, groups_too), f"{user}@{cloud}", _cloud(tx, cloud))
        return tasks.create(tx, NewTask("grant", None, [NewStage("grant", [step])], requested_by=by))


def prove(ledger: Ledger, cloud: str, by: str | None) -> int:
    """Try what a cloud promises, on the deployment that was made for that: VMs of it are stopped, moved and renamed."""
    name = f"{DEEP_CHECK}{cloud}"
    with ledger.write() as tx:
        row = _cloud(tx, cloud)
        if deployments.lock(tx, name) is None:
            raise NotFound(
                f"there is no deployment {name} to try anything on",
                remedy=f"`coterie clouds check {cloud} --deep` makes it, and removes it afterwards",
            )
        step = PROVE.step(Prove(name), f"cloud {cloud}", row)
        return tasks.create(tx, NewTask("prove", name, [NewStage("prove", [step])], requested_by=by))


def _cloud(tx: Tx, cloud: str) -> CloudRow:
    row = clouds.get(tx, cloud)
    if row is None:
        raise NotFound(f"no cloud {cloud!r}", remedy="list them with `coterie clouds`")
    return row


def forget(ledger: Ledger, uuid: str, by: str | None) -> None:
    """The machine stays as it is; only the node is forgotten."""
    with ledger.write() as tx:
        node = _free(tx, uuid)
        writes.execute(tx, *nodes.forget(uuid))
        body = f"VM {node.vm_cid} of cloud {node.cloud} is left as it is"
        events.append(tx, [Event(None, "node.forgotten", node.name, body, {"uuid": uuid, "by": by})], time(tx))


def destroy(ledger: Ledger, uuid: str, by: str | None) -> int:
    """Delete the machine itself; the task that does it, and forgets the node at its end."""
    with ledger.write() as tx:
        node = _free(tx, uuid)
        cloud = clouds.get(tx, node.cloud)
        if cloud is None:
            raise unknown_cloud(node.cloud)
        group = conductor_groups.of_node(tx, uuid) or ""
        conductors.living(tx).require(group, cloud.driver)
        writes.execute(tx, nodes.set_state(uuid, "deleting"))
        step = DESTROY_NODE.step(DestroyNode(node.vm_cid or ""), node.name, cloud, node=uuid, group=group)
        opening = f"VM {node.vm_cid} of cloud {node.cloud}"
        return tasks.create(
            tx, NewTask("destroy-node", None, [NewStage("destroy", [step])], requested_by=by, opening=opening)
        )


def _free(tx: Tx, uuid: str) -> NodeRow:
    """The enrolled node, if no step works on it."""
    node = nodes.get(tx, uuid)
    if node is None:
        raise NotFound(f"no node {uuid!r}", remedy="list them with `coterie nodes`")
    if not node.enrolled:
        raise Conflict(
            f"node {node.name} belongs to deployment {node.deployment}",
            remedy="change its manifest and deploy it, or delete the deployment",
        )
    task = enrolled.working_on(tx, uuid)
    if task is not None:
        raise Conflict(
            f"task {task} is working on node {node.name}",
            remedy=f"wait for it (coterie tasks watch {task}) or cancel it (coterie tasks cancel {task})",
            details={"task_id": task},
        )
    return node


def abandon(ledger: Ledger, name: str) -> None:
    """For a deployment that cannot be deleted in good order: its conductor or its cloud will not come back."""
    with ledger.write() as tx:
        if deployments.get(tx, name) is None:
            raise NotFound(f"there is no deployment {name}", remedy="see `coterie deployments`")
        deployments.abandon(tx, name)
        told = "given up; what it has in clouds is an orphan now: coterie cleanup"
        events.append(tx, [Event(None, "deployment.abandoned", name, told)], time(tx))
