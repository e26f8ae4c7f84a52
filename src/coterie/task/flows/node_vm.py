"""What all node flows share: reading the node, and removing whatever VM it has or may have."""

from __future__ import annotations

from coterie.cpi.contract import VMNotFound
from coterie.errors import NotFound
from coterie.ledger import nodes, objects
from coterie.ledger.nodes import NodeRow
from coterie.task.create import Landed, Lost, settle
from coterie.task.flow import Move, Next, Work


def load(work: Work) -> NodeRow:
    with work.ledger.read() as tx:
        node = nodes.get(tx, work.claim.node or "")
    if node is None:
        raise NotFound(f"node {work.claim.subject} is no longer in the ledger")
    return node


def retire_vm(work: Work) -> Move | None:
    """Remove one VM of this node and come back; None when there is none left. Doubtful ones are settled first."""
    with work.ledger.read() as tx:
        rows = [row for row in objects.of_node(tx, work.claim.node or "") if row.kind == "vm"]
    if not rows:
        return None
    row = rows[0]
    if row.cid is None:
        settled = settle(work, "vm", row.intent)
        if isinstance(settled, Landed | Lost):
            return Next("retire")
        return settled
    if row.state != "deleting":
        work.write(objects.deleting(row.intent, row.cid))
        return Next("retire")
    try:
        work.cpi.delete_vm(row.cid)
    except VMNotFound:
        work.say("vm.gone", f"VM {row.cid} was gone already")
    work.write(
        objects.gone(row.intent),
        nodes.change(work.claim.node or "", vm_cid=None, vm_intent=None, server_group=None, host=None),
    )
    return Next("retire")
