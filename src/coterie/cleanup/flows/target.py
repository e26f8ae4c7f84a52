"""One object on its way out: held against deployments, read again, and still what it was found to be."""

from __future__ import annotations

from typing import cast

from coterie.cleanup.findings import judge
from coterie.cleanup.options import within
from coterie.cpi.contract import CloudObject, Cpi, Kind, Mark
from coterie.engine.flow import Done, Flow, Move, Wait, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import cleanups, deletion_candidates, enrolled, evidence, groups, holds, nodes, objects
from coterie.ledger.rows.mark_record import Record
from coterie.ledger.writes import Write

HOLD_S = 900.0  # longer than any call may take
_PATIENCE = 12


class Target(Flow):
    """data: finding, kind, cid, created_at, intent, deployment, every_s, hours, reclaims."""

    def failed(self, work: Work, error: CoterieError) -> None:
        work.write(cleanups.record_outcome(work.data["finding"], "failed", error.facts()))


def enter(work: Work) -> Move | None:
    """Wait for our turn, then hold what the object belongs to; None when the way is free."""
    data = work.data
    if data["hours"] and not within(data["hours"], work.moment):
        return skip(work, f"outside the allowed hours {data['hours']}")
    if "paced" not in data:
        with work.ledger.write() as tx:
            data["paced"] = holds.pace(tx, work.claim.cloud or "", data["every_s"])
        if data["paced"] > 0:
            return Wait(data["paced"], "its turn has not come")
    name = _hold(work)
    if name is None:
        return None
    with work.ledger.write() as tx:
        busy = holds.take(tx, name, work.claim.task, HOLD_S)
    if busy is None:
        return None
    if busy == data["reclaims"].get(data["deployment"]):
        return Wait(0.2, f"task {busy} reclaims what {name} needs")
    return skip(work, f"task {busy} is at work on {name}")


def inspect(work: Work) -> tuple[CloudObject, Record] | Move:
    """Read it again in the cloud and in the ledger: unchanged, unneeded, unused; else how the step ends."""
    data, mark = work.data, Mark(work.director_uuid, work.data["intent"])
    found = _read_again(work.cpi, cast(Kind, data["kind"]), mark, data["cid"])
    cloud = work.claim.cloud or ""
    with work.ledger.read() as tx:
        record = evidence.records(tx, cloud, [mark.intent]).get(mark.intent)
        marked = deletion_candidates.get(tx, cloud, data["kind"], data["cid"])
        kept = enrolled.among(tx, cloud, [data["cid"]]) if data["kind"] == "vm" else {}
    if found is None:
        return _vanished(work, record)
    if found.created_at != data["created_at"]:
        return skip(work, "another object has this id by now")
    finding = judge(found, record, work.director_uuid, cloud, work.moment, kept.get(found.cid))
    if finding.action != "delete" or record is None:
        return skip(work, f"not an orphan any more: {finding.reason}")
    if marked is not None and marked.pinned:
        return skip(work, "undo has saved it")
    if found.in_use_by:
        return _used(work, found.in_use_by)
    return found, record


def skip(work: Work, why: str) -> Move:
    work.write(cleanups.record_outcome(work.data["finding"], "skipped", {"why": why}))
    work.say("cleanup.skipped", why, cid=work.data["cid"])
    return Done()


def row_becomes(work: Work, record: Record, state: str) -> list[Write]:
    """The row behind the object; what came beside it has none of its own."""
    if record.kind != work.data["kind"]:
        return []
    if record.kind == "server_group":
        return group_becomes(work, state)
    if state == "gone":
        return [objects.record_gone(record.intent, tombstone=record.tombstone), *freed(record)]
    if state == "deleting":
        return [objects.begin_delete(record.intent, work.data["cid"])]
    return [objects.end_delete(record.intent, state)]


def group_becomes(work: Work, state: str) -> list[Write]:
    """A group that is gone stays so, whatever the cloud still shows of it."""
    with work.ledger.read() as tx:
        row = groups.get(tx, work.data["intent"])
    if row is None or row.state in ("gone", state):
        return []
    return [groups.move(row, state)]


def freed(record: Record) -> list[Write]:
    """With the VM of a node that nobody has any more, its addresses are free."""
    if record.kind != "vm" or record.node is None or record.node_state is not None:
        return []
    return [nodes.free_addresses(record.node)]


def _hold(work: Work) -> str | None:
    if work.data["kind"] == "image":
        return holds.STEMCELLS
    return holds.of_deployment(work.data["deployment"]) if work.data["deployment"] else None


def _read_again(cpi: Cpi, kind: Kind, mark: Mark, cid: str) -> CloudObject | None:
    """By its mark; where several carry the same one, by its id in the list."""
    found = cpi.find(kind, mark)
    if found is None or found.cid == cid:
        return found
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, mark.director, cursor)
        same = next((thing for thing in page.objects if thing.cid == cid and thing.mark == mark), None)
        if same is not None or page.next is None:
            return same
        cursor = page.next


def _vanished(work: Work, record: Record | None) -> Move:
    """Nothing carries this mark any more. Should it come back, the tombstone tells that it is an orphan."""
    kind, cid = work.data["kind"], work.data["cid"]
    if record is not None and record.user is None and record.kind == kind and kind != "server_group":
        work.write(objects.record_gone(record.intent, tombstone=True), *freed(record))
    elif record is not None and record.user is None and record.kind == kind:
        # Where it was not being deleted, the next survey finds its row without an object, and closes it.
        work.write(*group_becomes(work, "gone" if record.state == "deleting" else "deleting"))
    work.write(
        cleanups.record_outcome(work.data["finding"], "gone"),
        deletion_candidates.clear(work.claim.cloud or "", kind, cid),
    )
    work.say("cleanup.gone", f"nothing carries the mark of {kind} {cid} any more", cid=cid)
    return Done()


def _used(work: Work, users: tuple[str, ...]) -> Move:
    """Clouds let go of a deleted VM late; anything else never lets go, so the patience is bounded."""
    work.data["used"] = work.data.get("used", 0) + 1
    if work.data["used"] > _PATIENCE:
        return skip(work, f"used by {', '.join(users)}")
    return Wait(0.1 * work.data["used"], f"used by {', '.join(users)}", "begin")
