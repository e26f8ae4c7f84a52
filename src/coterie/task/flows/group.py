"""Server groups: created before the first VM, updated, deleted after the last one."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import GroupInUse, GroupMetadata, Mark
from coterie.errors import CoterieError, NotFound
from coterie.ledger import groups, nodes
from coterie.ledger.groups import GroupRow
from coterie.task.flow import Done, Flow, Move, Next, Wait, Work

_IN_USE_TRIES = 20


class CreateGroup(Flow):
    """data: intent, metadata. Idempotent per mark by contract, so a repeat is simply the same call.

    Undone by DeleteGroup, which the next plan asks for when nobody wants the group any more.
    """

    name: ClassVar[str] = "group.create"

    def begin(self, work: Work) -> Move:
        row = _row(work)
        metadata = GroupMetadata.of_wire(work.data["metadata"])
        cid = work.cpi.create_server_group(metadata, mark=Mark(work.director_uuid, row.intent))
        work.write(groups.move(row, "live", cid=cid))
        work.say("group.ready", f"server group {cid} ({metadata.policy or 'security groups only'})", cid=cid)
        return Done()


class UpdateGroup(Flow):
    """data: intent, cid, metadata. Repeatable; the way back is another update."""

    name: ClassVar[str] = "group.update"

    def begin(self, work: Work) -> Move:
        metadata = GroupMetadata.of_wire(work.data["metadata"])
        work.cpi.update_server_group(work.data["cid"], metadata)
        work.write(groups.change(work.data["intent"], metadata=metadata.wire()))
        work.say("group.updated", f"server group {work.data['cid']}: {work.data['reason']}")
        return Done()


class DeleteGroup(Flow):
    """data: intent. The ledger and the cloud must both show it empty. Nothing to undo: it held nobody."""

    name: ClassVar[str] = "group.delete"

    def begin(self, work: Work) -> Move:
        row = _row(work)
        if row.state == "gone":
            return Done()
        with work.ledger.read() as tx:
            members = nodes.in_group(tx, row.intent)
        if members:
            raise GroupInUse(
                f"server group {work.claim.subject} is kept",
                why=f"{members} of our nodes still have a VM in it",
                remedy="mend or remove those nodes, then deploy again",
            )
        work.write(groups.move(row, "deleting"))
        return Next("delete")

    def delete(self, work: Work) -> Move:
        row = _row(work)
        cid = row.cid or Mark(work.director_uuid, row.intent).group_cid
        try:
            work.cpi.delete_server_group(cid)
        except GroupInUse as busy:
            # Clouds let go of a deleted VM late; a foreign member never goes, so the patience is bounded.
            work.data["busy"] = work.data.get("busy", 0) + 1
            if work.data["busy"] >= _IN_USE_TRIES:
                raise
            return Wait(1.0, str(busy))
        work.write(groups.move(row, "gone"))
        work.say("group.deleted", f"server group {cid}")
        return Done()

    def failed(self, work: Work, error: CoterieError) -> None:
        row = _row(work)
        if row.state == "deleting":
            work.write(groups.move(row, "live"))


def _row(work: Work) -> GroupRow:
    with work.ledger.read() as tx:
        row = groups.get(tx, work.data["intent"])
    if row is None:
        raise NotFound(f"server group {work.claim.subject} is no longer in the ledger")
    return row
