"""Deletes one object for good, a disk after a snapshot where that is wished for."""

from __future__ import annotations

from typing import ClassVar, cast

from coterie.cleanup.flows.target import Target, enter, inspect, row_becomes, skip
from coterie.cpi.contract import (
    Changed,
    DiskNotFound,
    Expected,
    GroupMissing,
    Kind,
    Mark,
    StemcellNotFound,
    Throttled,
    VMNotFound,
)
from coterie.engine.create_once import Landed, Lost, clear, create_once
from coterie.engine.flow import Done, Move, Next, Wait, Work
from coterie.ledger.rows import cleanups, deletion_candidates, evidence, objects

_GONE = (VMNotFound, DiskNotFound, StemcellNotFound, GroupMissing)
_LONGEST_REST_S = 30.0
_LONGEST_ASKED_S = 600.0
_THROTTLED = 200


class DeleteObject(Target):
    """data: as Target, and `snapshot`. There is no undo: that is what grace, plan and undo window were for."""

    name: ClassVar[str] = "cleanup.delete"

    def begin(self, work: Work) -> Move:
        rest = enter(work)
        if rest is not None:
            return rest
        found = inspect(work)
        if not isinstance(found, tuple):
            return found
        thing, record = found
        work.data.update(etag=thing.etag, was=record.state)
        work.write(*row_becomes(work, record, "deleting"))
        return Next("want_snapshot" if work.data["snapshot"] else "delete")

    def want_snapshot(self, work: Work) -> Move:
        if "snapshot_disk" in work.cpi.capabilities().unsupported:
            return self._spare(work, "this cloud makes no snapshots; use --disks keep")
        intent = work.ids.intent()
        ref = f"disk {work.data['cid']}"
        work.write(
            objects.intend(intent, "snapshot", work.claim.cloud or "", deployment=work.data["deployment"], ref=ref)
        )
        work.data["copy"] = intent
        clear(work, intent)
        return Next("snapshot_first")

    def snapshot_first(self, work: Work) -> Move:
        """What the snapshot is kept for is the undo window of the disk."""
        disk, about = work.data["cid"], {"cleanup": str(work.claim.task)}
        done = create_once(
            work, "snapshot", work.data["copy"], lambda mark: work.cpi.snapshot_disk(disk, about, mark=mark)
        )
        match done:
            case Landed(cid):
                work.say("cleanup.snapshot", f"disk {disk} is kept as snapshot {cid}", cid=cid)
                work.data["etag"] = None  # a snapshot may have changed it
                return Next("keep_snapshot")
            case Lost():
                return Next("want_snapshot")
        return done

    def keep_snapshot(self, work: Work) -> Move:
        """A commit of its own: within one, nobody may count on the order of two changes of a row."""
        work.write(objects.keep(work.data["copy"]))
        return Next("delete")

    def delete(self, work: Work) -> Move:
        data = work.data
        expected = Expected(Mark(work.director_uuid, data["intent"]), data["created_at"], data["etag"])
        try:
            work.cpi.delete_object(cast(Kind, data["kind"]), data["cid"], expected)
        except Changed as changed:
            return self._spare(work, str(changed))
        except Throttled as busy:
            return self._rest(work, busy)
        except _GONE:
            work.say("cleanup.gone", "was gone already")
        return self._deleted(work)

    def _deleted(self, work: Work) -> Move:
        data, cloud = work.data, work.claim.cloud or ""
        with work.ledger.read() as tx:
            record = evidence.records(tx, cloud, [data["intent"]]).get(data["intent"])
        if record is not None:
            work.write(*row_becomes(work, record, "gone"))
        work.write(
            cleanups.record_outcome(data["finding"], "deleted"),
            deletion_candidates.clear(cloud, data["kind"], data["cid"]),
        )
        work.say("cleanup.deleted", f"{data['kind']} {data['cid']}: {data['reason']}", cid=data["cid"])
        return Done()

    def _rest(self, work: Work, busy: Throttled) -> Move:
        """Not dropped and not counted as a failure: the cloud only asked for time."""
        work.data["throttled"] = count = work.data.get("throttled", 0) + 1
        if count > _THROTTLED:
            raise busy
        asked = busy.details.get("retry_after")
        if isinstance(asked, int | float):
            return Wait(min(_LONGEST_ASKED_S, float(asked)), str(busy))
        return Wait(min(_LONGEST_REST_S, 0.1 * 2 ** min(count, 9)), str(busy))

    def _spare(self, work: Work, why: str) -> Move:
        with work.ledger.read() as tx:
            record = evidence.records(tx, work.claim.cloud or "", [work.data["intent"]]).get(work.data["intent"])
        if record is not None and record.state == "deleting":
            work.write(*row_becomes(work, record, work.data["was"]))
        return skip(work, why)
