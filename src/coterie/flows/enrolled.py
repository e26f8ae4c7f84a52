"""Deletes the machine of an enrolled node, on request."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cpi.contract import Changed, VMNotFound
from coterie.engine.flow import Done, Flow, Move, NoProgress, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import nodes


@dataclass(frozen=True, slots=True)
class DestroyNode:
    """May be repeated: a machine that is gone already is gone. There is no undo."""

    cid: str


def _destroy(work: Work[DestroyNode, NoProgress]) -> Move:
    cid = work.params.cid
    try:
        _refuse_marked(work, cid)
        work.cpi.delete_vm(cid)
    except VMNotFound:
        work.say("vm.gone", f"VM {cid} was gone already")
    work.write(*nodes.forget(work.node))
    work.say("node.destroyed", f"VM {cid} is deleted")
    return Done()


def _refuse_marked(work: Work[DestroyNode, NoProgress], cid: str) -> None:
    """Check again: it was enrolled a while ago, perhaps before its driver could read marks."""
    if "vm_owner" in work.cpi.capabilities().unsupported:
        return
    owner = work.cpi.vm_owner(cid)
    if owner is not None:
        director = "this Director" if owner == work.director_uuid else f"the Director {owner}"
        raise Changed(
            f"VM {cid} carries the mark of {director}",
            why="it belongs to the Director that made it, and is not deleted",
            remedy=f"forget the node, which leaves the machine: coterie nodes delete {work.claim.subject}",
        )


def _fail(work: Work[DestroyNode, NoProgress], error: CoterieError) -> None:
    work.write(nodes.set_state(work.node, "failing", error.facts()))


DESTROY_NODE = Flow("node.destroy", DestroyNode, NoProgress, {"begin": _destroy}, _fail)
