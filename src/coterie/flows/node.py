"""Nodes: created, recreated, updated in place, deleted, reclaimed. One step is one node; its labels are the calls.

A node's VM is always found and removed before another is intended, so that no node ever has two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import StemcellNotFound, VMNotFound
from coterie.engine.flow import Done, Flow, Move, Next, Wait, Work
from coterie.engine.intent_life import (
    Created,
    NotCreated,
    close_failed_intent,
    create_or_resume,
    find_created,
    is_uncalled_after_failure,
    note_uncalled,
    resume_create,
)
from coterie.errors import CoterieError, NotFound
from coterie.flows.late_arrivals import delete_late_arrivals, delete_parts_without_vm
from coterie.flows.node_disk import (
    attach_disk,
    change_disk,
    create_disk,
    detach_replaced,
    ensure_disk,
    fail_disk,
    find_disk,
    keep_disk,
    leave_disk,
    release_disk,
)
from coterie.flows.node_params import (
    AttachDisk,
    CreateNode,
    DeleteNode,
    NodeProgress,
    NodeToMake,
    NodeWork,
    ReclaimNode,
    RecreateNode,
    RestartNode,
    StopNode,
    UpdateNode,
)
from coterie.flows.node_up import wait_until_up
from coterie.flows.parts import announce_parts
from coterie.flows.recovery_tags import place_tags, vm_tags
from coterie.ledger.rows import cleanups, groups, nodes, objects, parts
from coterie.redact import REDACTED

_WITHOUT_TOUCHING_VM = ("begin", "regroup", "describe")  # labels of an update

# -- from an intent to a node that is up --


def _begin_create(work: Work[CreateNode, NodeProgress]) -> Move:
    work.write(nodes.set_state(work.node, "changing"))
    return Next("retire") if work.params.again else _intend_vm(work)


def _begin_recreate(work: Work[RecreateNode, NodeProgress]) -> Move:
    work.write(nodes.set_state(work.node, "changing"))
    work.say("node.recreating", work.params.node.reason)
    return Next("retire")


def _remove_vm_of_new_node(work: Work[CreateNode, NodeProgress]) -> Move:
    return _remove_vm(work) or Next("intend")


def _remove_old_vm(work: Work[RecreateNode, NodeProgress]) -> Move:
    return _remove_vm(work) or leave_disk(work, "retire") or Next("intend")


def _intend_vm(work: NodeWork) -> Move:
    node, spec, intent = work.params.node, work.params.node.spec, work.ids.intent()
    work.write(
        objects.intend(intent, "vm", spec.cloud, az=spec.az, deployment=node.deployment, node=work.node, ref=node.name),
        parts.begin(spec.cloud, intent, "vm"),
        nodes.intend_vm(work.node, intent, az=spec.az, addresses=dict(node.addresses), server_group=node.server_group),
        *nodes.leave_addresses(work.progress.leaves),
    )
    work.progress.leaves = {}
    work.progress.vm, work.progress.agent_id = intent, work.ids.uuid()
    note_uncalled(work, intent)
    return Next("create_vm")


def _create_vm(work: NodeWork) -> Move:
    arguments = _arguments(work)
    if isinstance(arguments, Wait):
        return arguments
    vm = work.progress.vm or ""
    result = create_or_resume(work, "vm", vm, lambda mark: work.cpi.create_vm(*arguments, mark=mark).cid)
    match result:
        case Created(cid):
            work.progress.cid = cid
            work.write(nodes.record_vm(work.node, cid))
            return Next("describe")
        case NotCreated():
            delete_parts_without_vm(work, vm)
            work.write(nodes.forget_vm(work.node))
            return Next("intend")
    return result


def _arguments(work: NodeWork) -> tuple[Any, ...] | Wait:
    """Those of create_vm."""
    node, spec = work.params.node, work.params.node.spec
    image = work.recall(("image", work.cloud, spec.stemcell), lambda: _image_cid(work, spec.stemcell))
    if image is None:
        return Wait(1.0, f"stemcell {spec.stemcell} is not in {work.cloud} yet")
    secrets = spec.secrets if spec.secret is None else work.secrets.open(spec.secret, node.deployment)
    env = {**secrets.env, "bosh": {**secrets.env.get("bosh", {})}}
    if secrets.user_data:
        env["user_data"] = secrets.user_data
    group = node.server_group
    if group is not None:
        cid = work.recall(("group", group), lambda: _group_cid(work, group))
        if cid is None:
            return _wait_for_group(work)
        env["bosh"]["server_group_cid"] = cid
        if spec.member is not None:
            env["bosh"]["server_group_member"] = spec.member
    disks = _disk_cids(work) if _may_have_disk(work) else []
    return work.progress.agent_id, image, dict(spec.vm), _networks(spec.networks), disks, env


def _networks(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Without `prefix`: that of the subnet is stored, while to a CPI it is the size of a range delegated to the VM."""
    return {name: {key: value for key, value in one.items() if key != "prefix"} for name, one in stored.items()}


def _describe(work: NodeWork) -> Move:
    """Metadata and whatever follows may be repeated, so it needs no commit in between."""
    node = work.params.node
    shown = _vm_metadata(node, work.node, _hidden_tags(work))
    work.cpi.set_vm_metadata(work.progress.cid or "", {**shown, **_recovery_marks(work)})
    if node.spec.disk is not None:
        return ensure_disk(work)
    unsure = keep_disk(work, "describe") if _may_have_disk(work) else None
    return unsure or wait_until_up(work)


def _hidden_tags(work: NodeWork) -> Mapping[str, str]:
    """Tags that repeat a secret are stored with the secrets."""
    node, spec = work.params.node, work.params.node.spec
    if spec.secret is None or REDACTED not in spec.tags.values():
        return {}
    return work.secrets.open(spec.secret, node.deployment).tags


def _vm_metadata(node: NodeToMake, uuid: str, hidden: Mapping[str, str]) -> dict[str, str]:
    """What a person sees on the VM, as BOSH names it."""
    return {
        **{str(key): str(value) for key, value in {**node.spec.tags, **hidden}.items()},
        "director": node.director,
        **place_tags(node.deployment, uuid, node.instance_group, node.index),
        "name": node.name,
    }


def _recovery_marks(work: NodeWork) -> dict[str, str]:
    node, spec = work.params.node, work.params.node.spec
    group = node.server_group
    group_cid = work.recall(("group", group), lambda: _group_cid(work, group)) if group else None
    image = work.recall(("marked image", work.cloud, spec.stemcell), lambda: _image_mark(work, spec.stemcell))
    return vm_tags(spec, node.addresses, group_cid, image)


def _image_mark(work: NodeWork, stemcell: str) -> str | None:
    with work.ledger.read() as tx:
        rows = objects.images(tx, [stemcell])
    return next((f"{row.intent} {row.cid}" for row in rows if row.cloud == work.cloud and row.state == "live"), None)


def _may_have_disk(work: NodeWork) -> bool:
    """A new node has none, until this very step has made it, unless it was given a kept one."""
    return not isinstance(work.params, CreateNode) or work.progress.disk is not None


def _fail_node(work: NodeWork, error: CoterieError) -> None:
    vm = work.progress.vm or ""
    if work.claim.label == "create_vm":
        close_failed_intent(work, vm)
        if is_uncalled_after_failure(work, vm):
            work.write(nodes.forget_vm(work.node))
        if isinstance(error, StemcellNotFound) and not isinstance(work.params, ReclaimNode):
            _forget_image(work, work.params.node.spec.stemcell)
    fail_disk(work)
    work.write(nodes.set_state(work.node, "failing", error.facts()))


# -- changes in place --


def _begin_update(work: Work[UpdateNode, NodeProgress]) -> Move:
    _begin_in_place(work)
    return Next("regroup" if work.params.regrouped else _label_after_regroup(work))


def _begin_in_place(work: NodeWork) -> None:
    """Of a change to a node that keeps its VM."""
    with work.ledger.read() as tx:
        node = nodes.get(tx, work.node)
    if node is None:
        raise NotFound(f"node {work.claim.subject} is no longer in the ledger")
    work.progress.cid, work.progress.vm = node.vm_cid, node.vm_intent
    work.write(nodes.set_state(node.uuid, "changing"))


def _regroup(work: Work[UpdateNode, NodeProgress]) -> Move:
    """Repeatable by contract. After a failure the VM is still in its old group, as the ledger says."""
    group = work.params.node.server_group
    cid = _group_cid(work, group) if group else None
    if group and cid is None:
        return _wait_for_group(work)
    work.cpi.change_server_group(work.progress.cid or "", cid)
    work.write(nodes.set_server_group(work.node, group))
    work.say("node.regrouped", f"in server group {cid}" if cid else "in no server group")
    return Next(_label_after_regroup(work))


def _fail_update(work: Work[UpdateNode, NodeProgress], error: CoterieError) -> None:
    """A change of the server group or of the metadata that failed has not touched the VM: the node stays up, with the
    problem, and the next plan changes it in place again."""
    if work.claim.label in _WITHOUT_TOUCHING_VM and not isinstance(error, VMNotFound):
        work.write(nodes.set_state(work.node, "up", error.facts()))
    else:
        _fail_node(work, error)


def _label_after_regroup(work: Work[UpdateNode, NodeProgress]) -> str:
    return "change_disk" if work.params.disk_changes else "describe"


def _begin_restart(work: Work[RestartNode, NodeProgress]) -> Move:
    _begin_in_place(work)
    work.say("node.restarting", work.params.node.reason)
    return Next("reboot")


def _reboot(work: Work[RestartNode, NodeProgress]) -> Move:
    """After a lost answer it is rebooted once more."""
    work.cpi.reboot_vm(work.progress.cid or "")
    return Next("await_up")


def _begin_attach(work: Work[AttachDisk, NodeProgress]) -> Move:
    _begin_in_place(work)
    return Next("detach_replaced")


# -- a node without a VM --


def _begin_stop(work: Work[StopNode, NodeProgress]) -> Move:
    work.write(nodes.set_state(work.node, "changing"))
    work.say("node.stopping", work.params.node.reason)
    return Next("retire")


def _remove_vm_to_stop(work: Work[StopNode, NodeProgress]) -> Move:
    return _remove_vm(work) or leave_disk(work, "retire") or Next("record_stop")


def _record_stop(work: Work[StopNode, NodeProgress]) -> Move:
    node, spec = work.params.node, work.params.node.spec
    rest = keep_disk(work, "record_stop") if spec.disk is None and find_disk(work) else None
    if rest is not None:
        return rest
    work.write(
        nodes.record_stopped(work.node, spec.wire(), az=spec.az, addresses=node.addresses),
        *nodes.leave_addresses(work.progress.leaves),
    )
    work.say("node.stopped", "without a VM; its disk and its addresses stay")
    return Done()


# -- a VM that was created although its step had failed --


def _begin_reclaim(work: Work[ReclaimNode, NodeProgress]) -> Move:
    """Go on where the step that failed would have gone on."""
    result = _resume_vm(work)
    match result:
        case Created(cid):
            work.progress.cid = cid
            work.write(nodes.record_reclaimed_vm(work.node, cid))
            work.write(cleanups.record_outcome(work.params.finding, "reclaimed"))
            return Next("describe")
        case NotCreated():
            work.write(nodes.forget_vm(work.node))
            work.write(cleanups.record_outcome(work.params.finding, "gone"))
            work.say("node.not_reclaimed", "its VM is not there any more; deploy again to make it anew")
            return Done()
    return result


def _resume_vm(work: Work[ReclaimNode, NodeProgress]) -> Created | NotCreated | Move:
    """Its image, its group or its secrets may be gone by now: then the VM is taken as it is found."""
    vm = work.progress.vm or ""
    try:
        arguments = _arguments(work)
    except NotFound:
        return find_created(work, "vm", vm)
    if isinstance(arguments, Wait):
        return find_created(work, "vm", vm)
    return resume_create(work, "vm", vm, lambda mark: work.cpi.create_vm(*arguments, mark=mark).cid)


def _fail_reclaim(work: Work[ReclaimNode, NodeProgress], error: CoterieError) -> None:
    _fail_node(work, error)
    if work.progress.cid is None:
        work.write(cleanups.record_outcome(work.params.finding, "failed", error.facts()))


def _forget_image(work: NodeWork, stemcell: str) -> None:
    """It was deleted behind our back: the next deploy brings it again."""
    with work.ledger.read() as tx:
        rows = objects.images(tx, [stemcell])
    for row in rows:
        if row.cloud == work.cloud and row.state == "live":
            work.write(objects.record_gone(row.intent))
            work.say("stemcell.missing", f"{stemcell} was deleted in {work.cloud}; the next deploy uploads it again")


# -- the end of a node --


def _begin_delete(work: Work[DeleteNode, NodeProgress]) -> Move:
    work.write(nodes.set_state(work.node, "deleting"))
    return Next("retire")


def _remove_last_vm(work: Work[DeleteNode, NodeProgress]) -> Move:
    return _remove_vm(work) or Next("release_disks")


def _release_disks(work: Work[DeleteNode, NodeProgress]) -> Move:
    rest = release_disk(work)
    if rest is not None:
        return rest
    work.write(*nodes.forget(work.node))
    work.say("node.deleted", work.params.reason)
    return Done()


def _fail_delete(work: Work[DeleteNode, NodeProgress], error: CoterieError) -> None:
    work.write(nodes.set_state(work.node, "failing", error.facts()))


def _remove_vm(work: Work[Any, NodeProgress]) -> Move | None:
    """Remove one VM of this node and come back; None when there is none left. One that may be there is found first."""
    with work.ledger.read() as tx:
        rows = [row for row in objects.of_node(tx, work.node) if row.kind == "vm"]
        given_up = [] if rows else objects.list_given_up_of_node(tx, work.node)
    if not rows:
        delete_late_arrivals(work, given_up)
        return None
    row = rows[0]
    if row.cid is None:
        found = find_created(work, "vm", row.intent)
        return Next("retire") if isinstance(found, Created | NotCreated) else found
    if row.state != "deleting":
        announce_parts(work, row.intent, f"VM {row.cid}")
        work.write(objects.begin_delete(row.intent, row.cid))
        return Next("retire")
    try:
        work.cpi.delete_vm(row.cid)
    except VMNotFound:
        work.say("vm.gone", f"VM {row.cid} was gone already")
    work.write(
        objects.record_gone(row.intent),
        nodes.forget_vm(work.node),
    )
    return Next("retire")


# -- what the cloud calls the things that a VM is made of --


def _image_cid(work: NodeWork, stemcell: str) -> str | None:
    with work.ledger.read() as tx:
        rows = [row for row in objects.images(tx, [stemcell]) if row.cloud == work.cloud]
    if not rows:
        raise NotFound(f"stemcell {stemcell} is not in {work.cloud}, nor on its way there", remedy="deploy again")
    return next((row.cid for row in rows if row.state == "live"), None)


def _group_cid(work: NodeWork, intent: str) -> str | None:
    with work.ledger.read() as tx:
        group = groups.get(tx, intent)
    return group.cid if group else None


def _wait_for_group(work: NodeWork) -> Wait:
    return Wait(1.0, f"the server group of {work.claim.subject} is not in {work.cloud} yet")


def _disk_cids(work: NodeWork) -> list[str]:
    disk = find_disk(work)
    return [disk.cid] if disk is not None and disk.cid else []


_FROM_VM = {
    "describe": _describe,
    "create_disk": create_disk,
    "want_another_disk": ensure_disk,
    "attach_disk": attach_disk,
    "change_disk": change_disk,
    "await_up": wait_until_up,
}
_FROM_INTENT = {"intend": _intend_vm, "create_vm": _create_vm, **_FROM_VM}

CREATE_NODE = Flow(
    "node.create",
    CreateNode,
    NodeProgress,
    {"begin": _begin_create, "retire": _remove_vm_of_new_node, **_FROM_INTENT},
    _fail_node,
)
RECREATE_NODE = Flow(
    "node.recreate",
    RecreateNode,
    NodeProgress,
    {"begin": _begin_recreate, "retire": _remove_old_vm, **_FROM_INTENT},
    _fail_node,
)
UPDATE_NODE = Flow(
    "node.update", UpdateNode, NodeProgress, {"begin": _begin_update, "regroup": _regroup, **_FROM_VM}, _fail_update
)
RESTART_NODE = Flow(
    "node.restart",
    RestartNode,
    NodeProgress,
    {"begin": _begin_restart, "reboot": _reboot, "await_up": wait_until_up},
    _fail_node,
)
ATTACH_DISK = Flow(
    "disk.attach",
    AttachDisk,
    NodeProgress,
    {
        "begin": _begin_attach,
        "detach_replaced": detach_replaced,
        "describe": _describe,
        "attach_disk": attach_disk,
        "change_disk": change_disk,
        "await_up": wait_until_up,
    },
    _fail_node,
)
STOP_NODE = Flow(
    "node.stop",
    StopNode,
    NodeProgress,
    {"begin": _begin_stop, "retire": _remove_vm_to_stop, "record_stop": _record_stop},
    _fail_node,
)
RECLAIM_NODE = Flow("node.reclaim", ReclaimNode, NodeProgress, {"begin": _begin_reclaim, **_FROM_VM}, _fail_reclaim)
DELETE_NODE = Flow(
    "node.delete",
    DeleteNode,
    NodeProgress,
    {"begin": _begin_delete, "retire": _remove_last_vm, "release_disks": _release_disks},
    _fail_delete,
)
