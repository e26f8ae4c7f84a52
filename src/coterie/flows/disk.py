"""Deletes a kept disk: only when a person names it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cpi.contract import DiskNotFound
from coterie.engine.flow import Done, Flow, Move, NoProgress, Work
from coterie.ledger.rows import objects


@dataclass(frozen=True, slots=True)
class DeleteDisk:
    """There is no undo for data: the request writes `deleting` before the first call."""

    intent: str
    cid: str


def _delete(work: Work[DeleteDisk, NoProgress]) -> Move:
    disk = work.params
    try:
        work.cpi.delete_disk(disk.cid)
    except DiskNotFound:
        work.say("disk.gone", f"disk {disk.cid} was gone already")
    work.write(objects.record_gone(disk.intent))
    work.say("disk.deleted", f"disk {disk.cid}")
    return Done()


DELETE_DISK = Flow("disk.delete", DeleteDisk, NoProgress, {"begin": _delete})
