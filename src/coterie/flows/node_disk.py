"""The persistent disk of a node: created, attached, changed, kept. It outlives its VM; only a request deletes it."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import DiskNotAttached, DiskNotFound
from coterie.engine.flow import Move, Next, Work
from coterie.engine.intent_life import (
    Created,
    NotCreated,
    close_failed_intent,
    create_or_resume,
    find_created,
    note_uncalled,
)
from coterie.flows.node_params import AttachDisk, DeleteNode, NodeProgress, NodeWork, RecreateNode, StopNode
from coterie.flows.node_up import wait_until_up
from coterie.flows.recovery_tags import disk_tags, place_tags
from coterie.ledger.rows import objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.writes import Write
from coterie.plan.spec import DiskSpec


def ensure_disk(work: NodeWork) -> Move:
    """Use the disk that the node has, else intend one."""
    wanted = _wanted(work)
    present = find_disk(work)
    if present is None:
        return _intend_disk(work, wanted)
    work.progress.disk = present.intent
    if present.state != "live":
        return Next("create_disk")
    if (present.size_mb, present.properties) != (wanted.size_mb, wanted.cloud_properties):
        return Next("change_disk")
    return Next("attach_disk")


def _intend_disk(work: NodeWork, wanted: DiskSpec) -> Move:
    node, intent = work.params.node, work.ids.intent()
    work.write(
        objects.intend(
            intent,
            "disk",
            node.spec.cloud,
            az=node.spec.az,
            deployment=node.deployment,
            node=work.node,
            ref=node.name,
            size_mb=wanted.size_mb,
            properties=dict(wanted.cloud_properties),
        )
    )
    work.progress.disk = intent
    note_uncalled(work, intent)
    return Next("create_disk")


def create_disk(work: NodeWork) -> Move:
    wanted, vm_cid = _wanted(work), work.progress.cid
    result = create_or_resume(
        work,
        "disk",
        work.progress.disk or "",
        lambda mark: work.cpi.create_disk(wanted.size_mb, dict(wanted.cloud_properties), vm_cid, mark=mark),
    )
    match result:
        case Created():
            return Next("attach_disk")
        case NotCreated():
            return Next("want_another_disk")
    return result


def attach_disk(work: NodeWork) -> Move:
    """Idempotent by contract; and so is what follows."""
    with work.ledger.read() as tx:
        row = objects.get(tx, work.progress.disk or "")
    if row is None or row.cid is None:
        raise DiskNotFound(f"the ledger has no disk for {work.claim.subject}")
    work.cpi.attach_disk(work.progress.cid or "", row.cid)
    if "set_disk_metadata" not in work.cpi.capabilities().unsupported:
        node = work.params.node
        place = place_tags(node.deployment, work.node, node.instance_group, node.index)
        work.cpi.set_disk_metadata(row.cid, {**place, **disk_tags(_wanted(work))})
    return wait_until_up(work)


def change_disk(work: NodeWork) -> Move:
    """Bring the disk of a running node to its spec: grow it, drop it, or make the first one."""
    row, wanted = find_disk(work), work.params.node.spec.disk
    if row is None:
        return ensure_disk(work) if wanted else Next("describe")
    if row.cid is None:
        return _find_out(work, row, "change_disk")
    if wanted is not None and (row.size_mb, row.properties) == (wanted.size_mb, wanted.cloud_properties):
        return Next("describe")  # a kept disk that is as it shall be
    _detach(work, row.cid)
    if wanted is None:
        keep_disk(work, "change_disk")
    else:
        work.write(_reshape(work, row.intent, row.cid, row.properties == wanted.cloud_properties, wanted))
    return Next("describe")


def _detach(work: NodeWork, cid: str) -> None:
    try:
        work.cpi.detach_disk(work.progress.cid or "", cid)
    except DiskNotAttached:
        work.say("disk.detached", f"disk {cid} was detached already")


def detach_replaced(work: Work[AttachDisk, NodeProgress]) -> Move:
    """Before the disk that the node has by now is attached. One that is gone is as good as detached."""
    replaced = work.params.replaced
    if replaced is not None:
        try:
            _detach(work, replaced)
        except DiskNotFound:
            work.say("disk.gone", f"disk {replaced} was gone already")
        keep_replaced(work)
    return Next("describe")


def keep_replaced(work: Work[Any, Any]) -> None:
    """Disks in whose place the node got another one, once its VM does not have them any more."""
    with work.ledger.read() as tx:
        _, replaced = objects.disks_of_node(tx, work.node)
    for row in replaced:
        _keep(work, row)


def leave_disk(work: Work[RecreateNode, NodeProgress] | Work[StopNode, NodeProgress], label: str) -> Move | None:
    """Without its VM, what was attached to it and is not the node's is kept, and the disk that cannot follow it."""
    keep_replaced(work)
    row = find_disk(work) if work.params.leaves_disk is not None else None
    return keep_disk(work, label) if row is not None and row.intent == work.params.leaves_disk else None


def _reshape(work: NodeWork, intent: str, cid: str, same_type: bool, wanted: DiskSpec) -> Write:
    if same_type:
        work.cpi.resize_disk(cid, wanted.size_mb)
        return objects.record_size(intent, wanted.size_mb)
    properties = dict(wanted.cloud_properties)
    replaced = work.cpi.update_disk(cid, wanted.size_mb, properties)
    return objects.record_disk_update(intent, replaced or cid, wanted.size_mb, properties)


def fail_disk(work: NodeWork) -> None:
    if work.claim.label == "create_disk":
        close_failed_intent(work, work.progress.disk or "")


def keep_disk(work: Work[Any, Any], label: str) -> Move | None:
    """The node needs its disk no more: it is kept for the undo window. Whether one was made is found out at `label`."""
    row = find_disk(work)
    if row is None:
        return None
    if row.cid is None:
        return _find_out(work, row, label)
    _keep(work, row)
    return None


def _keep(work: Work[Any, Any], row: ObjectRow) -> None:
    work.write(objects.keep(row.intent))
    work.say("disk.kept", f"disk {row.cid} ({row.size_mb} MiB) is kept: coterie disks", cid=row.cid)


def release_disk(work: Work[DeleteNode, NodeProgress]) -> Move | None:
    """Keep or delete one disk of a node whose VM is gone, and come back; None when none is left.

    One that was replaced is kept in any case: no plan names it as deleted, and its user was told that it is kept.
    """
    with work.ledger.read() as tx:
        own, replaced = objects.disks_of_node(tx, work.node)
    row = own or next(iter(replaced), None)
    if row is None:
        return None
    if row.cid is None:
        return _find_out(work, row, "release_disks")
    if row is not own or not work.params.delete_disks:
        _keep(work, row)
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


def find_disk(work: Work[Any, Any]) -> ObjectRow | None:
    with work.ledger.read() as tx:
        return objects.disks_of_node(tx, work.node)[0]


def _find_out(work: Work[Any, Any], row: ObjectRow, label: str) -> Move:
    found = find_created(work, "disk", row.intent)
    return Next(label) if isinstance(found, Created | NotCreated) else found


def _wanted(work: NodeWork) -> DiskSpec:
    disk = work.params.node.spec.disk
    if disk is None:
        raise DiskNotFound(f"{work.claim.subject} shall have no disk")
    return disk
