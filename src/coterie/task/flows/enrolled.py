"""The end of an enrolled machine, when a person has asked for it."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import VMNotFound
from coterie.errors import CoterieError
from coterie.ledger import nodes
from coterie.task.flow import Done, Flow, Move, Work


class DestroyNode(Flow):
    """data: cid. May be repeated: a machine that is gone already is gone. There is no undo."""

    name: ClassVar[str] = "node.destroy"

    def begin(self, work: Work) -> Move:
        cid = work.data["cid"]
        try:
            work.cpi.delete_vm(cid)
        except VMNotFound:
            work.say("vm.gone", f"VM {cid} was gone already")
        work.write(*nodes.forget(work.claim.node or ""))
        work.say("node.destroyed", f"VM {cid} is deleted")
        return Done()

    def failed(self, work: Work, error: CoterieError) -> None:
        work.write(nodes.change(work.claim.node or "", state="failing", problem=error.facts()))
