"""What all node flows share: reading the node, and removing whatever VM it has or may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.cpi.contract import VMNotFound
from coterie.engine.create_once import Landed, Lost, settle
from coterie.engine.flow import Move, Next, Work
from coterie.errors import NotFound
from coterie.ledger.rows import nodes, objects
from coterie.ledger.rows.nodes import NodeRow


@dataclass(frozen=True, slots=True)
class Subject:
    """The node as its step was told of it; a step that makes VMs need not read it again."""

    uuid: str
    deployment: str
    instance_group: str
    index: int
    az: str
    cloud: str
    addresses: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.instance_group}/{self.index}"


def subject(work: Work) -> Subject:
    data = work.data
    wish = data["wish"]
    return Subject(
        work.claim.node or "",
        data["deployment"],
        data["instance_group"],
        data["index"],
        wish["az"],
        wish["cloud"],
        data["addresses"],
    )


def load(work: Work) -> NodeRow:
    """The node as it is now."""
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
        work.write(objects.begin_delete(row.intent, row.cid))
        return Next("retire")
    try:
        work.cpi.delete_vm(row.cid)
    except VMNotFound:
        work.say("vm.gone", f"VM {row.cid} was gone already")
    work.write(
        objects.record_gone(row.intent),
        nodes.change(work.claim.node or "", vm_cid=None, vm_intent=None, server_group=None, host=None),
    )
    return Next("retire")
