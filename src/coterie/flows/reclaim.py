"""A VM whose creation was thought failed, and whose node still needs one, becomes that node's VM."""

from __future__ import annotations

from typing import ClassVar

from coterie.engine.create_once import Landed, Lost, resume, settle
from coterie.engine.flow import Done, Move, Next, Wait, Work
from coterie.errors import CoterieError
from coterie.flows.node import UpdateNode
from coterie.ledger.rows import cleanups, nodes


class ReclaimNode(UpdateNode):
    """data: as of the step that lost the VM, `vm`, `finding`. Goes on where that step would have gone on.

    No undo: a node that is up is what was wished for.
    """

    name: ClassVar[str] = "node.reclaim"

    def begin(self, work: Work) -> Move:
        resumed = self._resumed(work)
        match resumed:
            case Landed(cid):
                work.data["cid"] = cid
                work.write(nodes.change(work.claim.node or "", vm_cid=cid, state="changing", problem=None))
                work.write(cleanups.record_outcome(work.data["finding"], "reclaimed"))
                return Next("describe")
            case Lost():
                work.write(nodes.change(work.claim.node or "", vm_intent=None, vm_cid=None, server_group=None))
                work.write(cleanups.record_outcome(work.data["finding"], "gone"))
                work.say("node.not_reclaimed", "its VM is not there any more; deploy again to make it anew")
                return Done()
        return resumed

    def _resumed(self, work: Work) -> Landed | Lost | Move:
        """What it was made of may be gone by now: then it is taken as it is found."""
        arguments = self._arguments(work)
        if isinstance(arguments, Wait):
            return settle(work, "vm", work.data["vm"])
        return resume(work, "vm", work.data["vm"], lambda mark: work.cpi.create_vm(*arguments, mark=mark).cid)

    def failed(self, work: Work, error: CoterieError) -> None:
        super().failed(work, error)
        if "cid" not in work.data:
            work.write(cleanups.record_outcome(work.data["finding"], "failed", error.facts()))
