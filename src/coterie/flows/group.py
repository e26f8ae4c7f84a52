"""Server groups: created before the first VM, updated, deleted after the last one."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import GroupInUse, GroupMetadata, GroupMissing, GroupView, Mark, is_adopted
from coterie.engine.flow import Done, Flow, Move, Next, Skip, Wait, Work
from coterie.errors import CoterieError, NotFound
from coterie.group.remedy import remedy
from coterie.ledger.rows import groups, nodes
from coterie.ledger.rows.groups import GroupRow

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
        what = f"{cid} ({metadata.policy or 'security groups only'})"
        if is_adopted(cid):
            work.say("group.adopted", f"the operator's server group {what}", cid=cid)
        else:
            work.say("group.ready", f"server group {what}", cid=cid)
        return Done()


class UpdateGroup(Flow):
    """data: intent, cid, metadata. Repeatable; the way back is another update."""

    name: ClassVar[str] = "group.update"

    def begin(self, work: Work) -> Move:
        row, metadata = _row(work), GroupMetadata.of_wire(work.data["metadata"])
        work.cpi.update_server_group(work.data["cid"], metadata)
        work.write(groups.change(work.data["intent"], metadata=metadata.wire(), drift=None))
        if row.state == "missing":
            work.write(groups.move(row, "live"))
        work.say("group.updated", f"server group {work.data['cid']}: {work.data['reason']}")
        return Done()


class RepairGroup(Flow):
    """data: intent. What the cloud lost of a group is made again, for the VMs that belong to it. Repeatable; there is
    nothing to undo. Where the cloud cannot do that, deploying again replaces the group."""

    name: ClassVar[str] = "group.repair"

    def begin(self, work: Work) -> Move:
        row = _row(work)
        cid = row.cid or Mark(work.director_uuid, row.intent).group_cid
        work.cpi.update_server_group(cid, GroupMetadata.of_wire(row.metadata))
        view = work.cpi.inspect_server_group(cid)
        if view.state in ("missing", "drifted"):
            raise GroupMissing(
                f"server group {cid} is still {view.state}",
                why="; ".join(view.notes),
                remedy=_beyond_repair(work, row, view),
            )
        work.write(groups.change(row.intent, drift=None))
        if row.state == "missing":
            work.write(groups.move(row, "live"))
        work.say("group.repaired", f"server group {cid}: {view.state}, {len(view.members)} members", cid=cid)
        return Done()


def _beyond_repair(work: Work, row: GroupRow, view: GroupView) -> str:
    other = view.policy != row.policy
    if view.state == "drifted" and not other:
        return (
            "mend in the cloud what it says, or make those nodes anew: coterie deploy MANIFEST --recreate --node NODE"
        )
    moves = work.cpi.capabilities().moves_members
    return remedy("drifted", moves_members=moves, adopted=row.adopted, other_policy=True)


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
            # They should have moved or gone before: that they did not is told where it went wrong.
            work.say("group.kept", f"{members} of our nodes still have a VM in it; the next deploy looks again")
            return Skip()
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
        if row.adopted:
            work.say("group.left", f"the operator's server group {row.cid or row.name}; it stays as it is")
        else:
            work.say("group.deleted", f"server group {cid}")
        return Done()

    def failed(self, work: Work, error: CoterieError) -> None:
        row = _row(work)
        if row.state == "deleting":
            work.write(groups.move(row, "live" if row.cid else "intended"))


def _row(work: Work) -> GroupRow:
    with work.ledger.read() as tx:
        row = groups.get(tx, work.data["intent"])
    if row is None:
        raise NotFound(f"server group {work.claim.subject} is no longer in the ledger")
    return row
