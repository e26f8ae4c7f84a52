"""Objects that came late: created by a call whose intent had been given up by then; and what such a call created for a
VM before it ended, for which no VM ever came.

Their mark and the ledger's tombstone prove that they are ours and that nothing uses them. So the deletion of their node
or of their server group deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.cpi.contract import CpiError, DiskNotFound, Expected, Kind, Mark, VMNotFound
from coterie.engine.flow import Work
from coterie.ledger.rows import objects, parts
from coterie.ledger.rows.objects import ObjectRow


def delete_late_arrivals(work: Work[Any, Any], given_up: Sequence[ObjectRow]) -> int:
    """Delete those of these VMs and disks that are in the cloud all the same; how many. Repeatable."""
    if not given_up or not work.cpi.capabilities().finds:
        return 0
    late = sum(_delete_if_there(work, row) for row in sorted(given_up, key=lambda row: row.kind == "disk"))
    for row in given_up:
        if row.kind == "vm":
            delete_parts_without_vm(work, row.intent)
    return late


_OF_ONE_VM: tuple[Kind, ...] = ("ip", "port")  # that other VMs never have; an address leads to a port


def delete_parts_without_vm(work: Work[Any, Any], intent: str) -> None:
    """Of a VM that was given up. What cannot be deleted is left to cleanup, which says why."""
    with work.ledger.read() as tx:
        recorded = {part.kind for part in parts.list_of(tx, [intent]).get(intent, ())}
    mark = Mark(work.director_uuid, intent)
    for kind in [one for one in _OF_ONE_VM if one in recorded]:
        try:
            _delete_parts(work, kind, mark)
        except CpiError as error:
            if error.retryable:
                raise
            work.say("object.part_left", f"what VM {intent} has of kind {kind} is left to cleanup: {error}")


def _delete_parts(work: Work[Any, Any], kind: Kind, mark: Mark) -> None:
    seen: set[str] = set()
    while (found := work.cpi.find(kind, mark)) is not None and found.cid not in seen:
        seen.add(found.cid)
        if found.in_use_by:
            raise CpiError(f"{kind} {found.cid} is used by {', '.join(found.in_use_by)}")
        work.cpi.delete_object(kind, found.cid, Expected(mark, found.created_at, found.etag))
        work.say("object.part_deleted", f"{kind} {found.cid}, for which no VM was created", cid=found.cid)


def _delete_if_there(work: Work[Any, Any], row: ObjectRow) -> bool:
    if row.kind not in ("vm", "disk"):
        return False
    found = work.cpi.find(row.kind, Mark(work.director_uuid, row.intent))
    if found is None or row.cid not in (None, found.cid):
        return False  # a copy of the one that was noted
    try:
        if row.kind == "vm":
            work.cpi.delete_vm(found.cid)
        else:
            work.cpi.delete_disk(found.cid)
    except (VMNotFound, DiskNotFound):
        pass
    work.write(objects.record_gone(row.intent))
    work.say("object.late_deleted", f"{row.kind} {found.cid} of {row.ref}, which was created late", cid=found.cid)
    return True
