"""Kept disks: deleted only when a person says so, by name."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import DiskNotFound
from coterie.engine.flow import Done, Flow, Move, Work
from coterie.ledger.rows import objects


class DeleteDisk(Flow):
    """data: intent, cid. There is no undo for data: the request says `deleting` before the first call."""

    name: ClassVar[str] = "disk.delete"

    def begin(self, work: Work) -> Move:
        try:
            work.cpi.delete_disk(work.data["cid"])
        except DiskNotFound:
            work.say("disk.gone", f"disk {work.data['cid']} was gone already")
        work.write(objects.record_gone(work.data["intent"]))
        work.say("disk.deleted", f"disk {work.data['cid']}")
        return Done()
