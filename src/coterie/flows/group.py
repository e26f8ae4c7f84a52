"""Server groups: created before the first VM, updated, repaired, deleted after the last VM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import GroupInUse, GroupMetadata, GroupMissing, GroupView, Mark, is_adopted
from coterie.engine.flow import Done, Flow, Move, Next, NoProgress, Skip, Wait, Work
from coterie.engine.stored import in_form
from coterie.errors import CoterieError, NotFound
from coterie.flows.late_arrivals import delete_late_arrivals
from coterie.flows.parts import announce_parts
from coterie.group.audit import remedy
from coterie.group.rules import with_rule_drift
from coterie.ledger.rows import groups, nodes, objects, parts
from coterie.ledger.rows.groups import GroupRow

_IN_USE_TRIES = 20
_LATE_EVERY = 5  # tries between two searches for VMs that came late


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Idempotent per mark by contract, so a repeat is the same call. Undone by DeleteGroup, which a later plan has
    when no instance group uses the group any more."""

    intent: str
    metadata: GroupMetadata = field(metadata=in_form(GroupMetadata))


@dataclass(frozen=True, slots=True)
class UpdateGroup:
    """Repeatable; the way back is another update."""

    intent: str
    cid: str
    reason: str
    metadata: GroupMetadata = field(metadata=in_form(GroupMetadata))


@dataclass(frozen=True, slots=True)
class RepairGroup:
    """What the cloud lost of a group is made again, for the VMs that belong to it. Repeatable; there is nothing to
    undo. Where the cloud cannot do that, deploying again replaces the group."""

    intent: str


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """The ledger and the cloud must both show the group empty, so there is nothing to undo."""

    intent: str


@dataclass(slots=True)
class DeleteGroupProgress:
    busy: int = 0  # how often the cloud has said that the group is in use


def _create(work: Work[CreateGroup, NoProgress]) -> Move:
    row, metadata = _row(work, work.params.intent), work.params.metadata
    cid = work.cpi.create_server_group(metadata, mark=Mark(work.director_uuid, row.intent))
    work.write(groups.move(row, "live", cid=cid), parts.begin(work.cloud, row.intent, "server_group"))
    what = f"{cid} ({metadata.policy or 'security groups only'})"
    if is_adopted(cid):
        work.say("group.adopted", f"the operator's server group {what}", cid=cid)
    else:
        work.say("group.ready", f"server group {what}", cid=cid)
    return Done()


def _update(work: Work[UpdateGroup, NoProgress]) -> Move:
    params = work.params
    row = _row(work, params.intent)
    work.cpi.update_server_group(params.cid, params.metadata)
    work.write(groups.record_metadata(params.intent, params.metadata.wire()))
    if row.state == "missing":
        work.write(groups.move(row, "live"))
    work.say("group.updated", f"server group {params.cid}: {params.reason}")
    return Done()


def _repair(work: Work[RepairGroup, NoProgress]) -> Move:
    row = _row(work, work.params.intent)
    cid = _cid(work, row)
    with work.ledger.read() as tx:
        metadata = groups.own_metadata(row, groups.security_group_holders(tx))
    work.cpi.update_server_group(cid, metadata)
    view = with_rule_drift(metadata, work.cpi.inspect_server_group(cid))
    if view.state in ("missing", "drifted"):
        raise GroupMissing(
            f"server group {cid} is still {view.state}",
            why="; ".join(view.notes),
            remedy=_remedy_beyond_repair(work, row, view),
        )
    work.write(groups.record_drift(row.intent, None))
    if row.state == "missing":
        work.write(groups.move(row, "live"))
    work.say("group.repaired", f"server group {cid}: {view.state}, {len(view.members)} members", cid=cid)
    return Done()


def _remedy_beyond_repair(work: Work[RepairGroup, NoProgress], row: GroupRow, view: GroupView) -> str:
    if view.state == "drifted" and view.policy == row.policy:
        return (
            "mend in the cloud what it says, or make those nodes anew: coterie deploy MANIFEST --recreate --node NODE"
        )
    moves = work.cpi.capabilities().moves_members
    return remedy("drifted", moves_members=moves, adopted=row.adopted, other_policy=True)


def _begin_delete(work: Work[DeleteGroup, DeleteGroupProgress]) -> Move:
    row = _row(work, work.params.intent)
    if row.state == "gone":
        return Done()
    with work.ledger.read() as tx:
        members = nodes.in_group(tx, row.intent)
    if members:
        # Their own steps, which should have moved or deleted them, have reported why they did not.
        work.say("group.kept", f"{members} of our nodes still have a VM in it; the next deploy looks again")
        return Skip()
    announce_parts(work, row.intent, f"server group {row.name}")
    work.write(groups.move(row, "deleting"))
    return Next("delete")


def _delete(work: Work[DeleteGroup, DeleteGroupProgress]) -> Move:
    row = _row(work, work.params.intent)
    cid = _cid(work, row)
    theirs = [] if row.adopted else _rules_of_others(work, cid)
    try:
        work.cpi.delete_server_group(cid)
    except GroupInUse as busy:
        if busy.details.get("foreign_only"):
            # nothing of ours is in it any more; cleanup deletes it once what others put there is gone
            work.write(groups.move(row, "gone"))
            work.say("group.kept", f"server group {cid} is kept in the cloud: {busy.why}; `coterie cleanup` finds it")
            return Done()
        # Clouds count a deleted VM for a while; a foreign member never goes, so the number of tries is bounded.
        if work.progress.busy % _LATE_EVERY == 0:
            with work.ledger.read() as tx:
                given_up = objects.list_given_up_vms(tx, row.cloud, row.deployment)
            delete_late_arrivals(work, given_up)
        work.progress.busy += 1
        if work.progress.busy >= _IN_USE_TRIES:
            raise GroupInUse(
                busy.what,
                why=busy.why,
                remedy=f"{busy.remedy}; VMs of ours that no node has are found and deleted by `coterie cleanup`",
            ) from busy
        return Wait(1.0, str(busy))
    work.write(groups.move(row, "gone"))
    if row.adopted:
        work.say("group.left", f"the operator's server group {row.cid or row.name}; it stays as it is")
    else:
        refer = f"; {', '.join(theirs)} of others refer to nothing now" if theirs else ""
        work.say("group.deleted", f"server group {cid}{refer}")
    return Done()


def _rules_of_others(work: Work[DeleteGroup, DeleteGroupProgress], cid: str) -> list[str]:
    if not work.cpi.capabilities().moves_members:
        return []  # only where groups are open lists can rules of others name them
    resources = work.cpi.inspect_server_group(cid).resources
    return [f"rule {one.cid}" for one in resources if one.kind == "rule" and not one.created_by_us]


def _fail_delete(work: Work[DeleteGroup, DeleteGroupProgress], error: CoterieError) -> None:
    row = _row(work, work.params.intent)
    if row.state == "deleting":
        work.write(groups.move(row, "live" if row.cid else "intended"))


def _row(work: Work[Any, Any], intent: str) -> GroupRow:
    with work.ledger.read() as tx:
        row = groups.get(tx, intent)
    if row is None:
        raise NotFound(f"server group {work.claim.subject} is no longer in the ledger")
    return row


def _cid(work: Work[Any, Any], row: GroupRow) -> str:
    return row.cid or Mark(work.director_uuid, row.intent).group_cid


CREATE_GROUP = Flow("group.create", CreateGroup, NoProgress, {"begin": _create})
UPDATE_GROUP = Flow("group.update", UpdateGroup, NoProgress, {"begin": _update})
REPAIR_GROUP = Flow("group.repair", RepairGroup, NoProgress, {"begin": _repair})
DELETE_GROUP = Flow(
    "group.delete", DeleteGroup, DeleteGroupProgress, {"begin": _begin_delete, "delete": _delete}, _fail_delete
)
