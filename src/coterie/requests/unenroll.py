"""The end of an enrolled node: forgotten, and its machine stays; or destroyed with it, when somebody says so."""

from __future__ import annotations

from coterie.errors import Conflict, NotFound
from coterie.flows.enrolled import DESTROY_NODE, DestroyNode
from coterie.ledger import writes
from coterie.ledger.rows import clouds, enrolled, events, nodes
from coterie.ledger.rows.events import Event
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.tasks import NewStage, NewTask
from coterie.requests.enroll import unknown_cloud


def forget(ledger: Ledger, uuid: str, by: str | None) -> None:
    """The machine stays as it is, and is nobody's business here any more."""
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
        group = cloud.conductor_group if node.conductor_group is None else node.conductor_group
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
