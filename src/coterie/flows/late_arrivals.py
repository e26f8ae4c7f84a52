"""Objects that came late: created by a call whose intent had been given up by then.

Their mark and the ledger's tombstone prove that they are ours and that nothing uses them. So the deletion of their node
or of their server group deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.cpi.contract import DiskNotFound, Mark, VMNotFound
from coterie.engine.flow import Work
from coterie.ledger.rows import objects
from coterie.ledger.rows.objects import ObjectRow


def delete_late_arrivals(work: Work[Any, Any], given_up: Sequence[ObjectRow]) -> int:
    """Delete those of these VMs and disks that are in the cloud all the same; how many. Repeatable."""
    if not given_up or not work.cpi.capabilities().finds:
        return 0
    return sum(_delete_if_there(work, row) for row in sorted(given_up, key=lambda row: row.kind == "disk"))


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
