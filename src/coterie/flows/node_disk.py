"""Persistent disks of a node: made, attached, grown, let go. A disk outlives its VM, and is deleted only on request."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import DiskNotAttached, DiskNotFound
from coterie.engine.create_once import Landed, Lost, clear, close_failed, create_once, settle
from coterie.engine.flow import Move, Next, Work
from coterie.flows.node_up import UpLabels
from coterie.flows.node_vm import Subject, subject
from coterie.ledger.rows import objects
from coterie.ledger.rows.objects import ObjectRow


class DiskLabels(UpLabels):
    """Labels about the one persistent disk of a node that is to be up."""

    def want_disk(self, work: Work, node: Subject) -> Move:
        """Use the disk that the node has, else intend one."""
        present = _disk(work)
        wanted = work.data["wish"]["disk"]
        if present is not None:
            work.data["disk"] = present.intent
            if present.state != "live":
                return Next("create_disk")
            if (present.size_mb, present.properties) != (wanted["size_mb"], wanted["cloud_properties"]):
                return Next("change_disk")
            return Next("attach_disk")
        intent = work.ids.intent()
        work.write(
            objects.intend(
                intent,
                "disk",
                node.cloud,
                az=node.az,
                deployment=node.deployment,
                node=node.uuid,
                ref=node.name,
                size_mb=wanted["size_mb"],
                properties=wanted["cloud_properties"],
            )
        )
        work.data["disk"] = intent
        clear(work, intent)
        return Next("create_disk")

    def create_disk(self, work: Work) -> Move:
        wanted = work.data["wish"]["disk"]
        vm_cid = work.data["cid"]
        done = create_once(
            work,
            "disk",
            work.data["disk"],
            lambda mark: work.cpi.create_disk(wanted["size_mb"], wanted["cloud_properties"], vm_cid, mark=mark),
        )
        match done:
            case Landed():
                return Next("attach_disk")
            case Lost():
                return Next("want_another_disk")
        return done

    def want_another_disk(self, work: Work) -> Move:
        return self.want_disk(work, subject(work))

    def attach_disk(self, work: Work) -> Move:
        """Idempotent by contract; and so is what follows."""
        row = _require(work, work.data["disk"])
        work.cpi.attach_disk(work.data["cid"], row.cid or "")
        return self.await_up(work)

    def change_disk(self, work: Work) -> Move:
        """Bring the disk of a running node to its wish: grow it, drop it, or make the first one."""
        row, wanted = _disk(work), work.data["wish"]["disk"]
        if row is None:
            return self.want_disk(work, subject(work)) if wanted else Next("describe")
        if row.cid is None:
            return _settle(work, row, "change_disk")
        _detach(work, row)
        if wanted is None:
            keep_disk(work, "change_disk")
        else:
            work.write(*_reshape(work, row, wanted))
        return Next("describe")

    def disk_failed(self, work: Work) -> None:
        if work.claim.label == "create_disk":
            close_failed(work, work.data["disk"])


def keep_disk(work: Work, label: str) -> Move | None:
    """The node wants its disk no more: it is kept for the undo window. One in doubt is settled first, at `label`."""
    row = _disk(work)
    if row is None:
        return None
    if row.cid is None:
        return _settle(work, row, label)
    work.write(objects.keep(row.intent))
    work.say("disk.kept", f"disk {row.cid} ({row.size_mb} MiB) is kept: coterie disks", cid=row.cid)
    return None


def release_disk(work: Work) -> Move | None:
    """Keep or delete one disk of a node whose VM is gone, and come back; None when none is left."""
    row = _disk(work)
    if row is None:
        return None
    if row.cid is None:
        return _settle(work, row, "release_disks")
    if not work.data["delete_disks"]:
        keep_disk(work, "release_disks")
        return Next("release_disks")
    if row.state != "deleting":
        work.write(objects.begin_delete(row.intent, row.cid))
        return Next("release_disks")
    try:
        work.cpi.delete_disk(row.cid)
    except DiskNotFound:
        work.say("disk.gone", f"disk {row.cid} was gone already")
    work.write(objects.record_gone(row.intent))
    return Next("release_disks")


def _settle(work: Work, row: ObjectRow, label: str) -> Move:
    settled = settle(work, "disk", row.intent)
    return Next(label) if isinstance(settled, Landed | Lost) else settled


def _reshape(work: Work, row: ObjectRow, wanted: dict[str, Any]) -> list[Any]:
    if row.properties == wanted["cloud_properties"]:
        work.cpi.resize_disk(row.cid or "", wanted["size_mb"])
        return [objects.record_size(row.intent, wanted["size_mb"])]
    replaced = work.cpi.update_disk(row.cid or "", wanted["size_mb"], wanted["cloud_properties"])
    cid = replaced or row.cid or ""
    return [objects.record_disk_update(row.intent, cid, wanted["size_mb"], wanted["cloud_properties"])]


def _detach(work: Work, row: ObjectRow) -> None:
    try:
        work.cpi.detach_disk(work.data["cid"], row.cid or "")
    except DiskNotAttached:
        work.say("disk.detached", f"disk {row.cid} was detached already")


def _disk(work: Work) -> ObjectRow | None:
    with work.ledger.read() as tx:
        rows = objects.of_node(tx, work.claim.node or "")
    return next((row for row in rows if row.kind == "disk"), None)


def _require(work: Work, intent: str) -> ObjectRow:
    with work.ledger.read() as tx:
        row = objects.get(tx, intent)
    if row is None or row.cid is None:
        raise DiskNotFound(f"the ledger has no disk for {work.claim.subject}")
    return row
