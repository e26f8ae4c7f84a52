"""The end of an enrolled machine, when a person has asked for it."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Changed, VMNotFound
from coterie.engine.flow import Done, Flow, Move, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import nodes


class DestroyNode(Flow):
    """data: cid. May be repeated: a machine that is gone already is gone. There is no undo."""

    name: ClassVar[str] = "node.destroy"

    def begin(self, work: Work) -> Move:
        cid = work.data["cid"]
        try:
            _refuse_marked(work, cid)
            work.cpi.delete_vm(cid)
        except VMNotFound:
            work.say("vm.gone", f"VM {cid} was gone already")
        work.write(*nodes.forget(work.claim.node or ""))
        work.say("node.destroyed", f"VM {cid} is deleted")
        return Done()

    def failed(self, work: Work, error: CoterieError) -> None:
        work.write(nodes.change(work.claim.node or "", state="failing", problem=error.facts()))


def _refuse_marked(work: Work, cid: str) -> None:
    """Asked again: who enrolled it did so a while ago, perhaps before drivers could tell."""
    if "vm_owner" in work.cpi.capabilities().unsupported:
        return
    owner = work.cpi.vm_owner(cid)
    if owner is not None:
        who = "this Director" if owner == work.director_uuid else f"the Director {owner}"
        raise Changed(
            f"VM {cid} carries the mark of {who}",
            why="it belongs to whoever made it, and is not deleted",
            remedy=f"forget the node, which leaves the machine: coterie nodes delete {work.claim.subject}",
        )
