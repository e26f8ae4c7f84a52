"""create_vm for BOSH: however often a call is repeated, there is one healthy machine per agent_id, or none.

The first machine is the answer again if the arguments are equal and it is healthy; otherwise it is removed first.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import Any

from coterie.bosh.core import addresses, agent_settings, server_groups
from coterie.bosh.core.call_context import CallContext
from coterie.bosh.recording import calls
from coterie.bosh.recording.described import is_described
from coterie.bosh.recording.marks import vm_mark
from coterie.cpi.contract import CpiError, Json, Networks, OutcomeUnknown, VmCreated, VMCreationFailed, VMNotFound
from coterie.ledger.rows import object_life as objects
from coterie.ledger.rows import parts
from coterie.ledger.rows.object_life import ObjectRow
from coterie.ledger.work import leases
from coterie.ledger.writes import execute
from coterie.slotted import dataclass

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class VmRequest:
    agent_id: str
    stemcell_cid: str
    cloud_properties: Json
    networks: Networks
    disk_cids: tuple[str, ...]
    env: Json

    @property
    def digest(self) -> str:
        """Equal for equal arguments. Only this hash is stored: there are secrets in `env`."""
        parts = [self.agent_id, self.stemcell_cid, self.cloud_properties, self.networks, self.disk_cids, self.env]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def create_vm(context: CallContext, request: VmRequest) -> VmCreated:
    agent_settings.require_registry(context)
    key = context.claim_key("vm", "", request.agent_id)
    _take_claim(context, key)
    with context.keep_claim(key):
        with context.ledger.read() as tx:
            before = objects.of_agent(tx, context.cloud, context.director, request.agent_id)
        for row in before:
            answer = _answer_again(context, request, row) if row.state != "gone" else None
            if answer:
                return answer
        _remove_undelivered(context, request)
        return _create_new(context, request, len(before))


def _remove_undelivered(context: CallContext, request: VmRequest) -> None:
    """A machine whose id no caller ever received, and which has an address of this one, goes: a caller that was killed
    comes again with a new agent_id and the same addresses. A cloud that cannot be asked gives no evidence for that."""
    wanted = addresses.of_request(request.networks)
    if not wanted or not context.driver.capabilities().finds:
        return
    with context.ledger.read() as tx:
        rows = objects.list_undelivered_vms(tx, context.cloud, context.director)
    for row in rows:
        if row.ref != request.agent_id and wanted & addresses.of_row(row):
            _remove_if_undelivered(context, row)


def _remove_if_undelivered(context: CallContext, row: ObjectRow) -> None:
    """Once no call works on it any more."""
    key = context.claim_key("vm", row.intent, row.ref)
    _take_claim(context, key)
    with context.keep_claim(key):
        with context.ledger.read() as tx:
            now = objects.get(tx, row.intent)
        if now is None or not now.may_exist or not now.is_undelivered:
            return
        cid = now.cid or _find_cid(context, now)
        if cid is not None and not _is_described(context, now):
            _remove_vm(context, now, cid)


def _is_described(context: CallContext, row: ObjectRow) -> bool:
    """Whether a caller may have written metadata on it, so that it must have received the id after all."""
    found = context.driver.find("vm", context.mark(row.intent))
    return found is not None and is_described(found)


def _take_claim(context: CallContext, key: str) -> None:
    """Until no other process works for this agent; a dead one's claim ends with its lease."""
    pause = _LOOK_S
    while True:
        with context.ledger.write() as tx:
            if leases.take(tx, key, context.holder, context.lease_s):
                return
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def _answer_again(context: CallContext, request: VmRequest, row: ObjectRow) -> VmCreated | None:
    """The answer of an earlier call, if its machine can be kept; otherwise that machine is gone when this returns."""
    if not _keep_or_remove(context, row, request.digest):
        return None
    notes = row.properties or {}
    if "answer" in notes:
        return VmCreated(notes["answer"][0], notes["answer"][1])
    return _create(context, request, row.intent, row.server_group, notes)


def _create_new(context: CallContext, request: VmRequest, generation: int) -> VmCreated:
    mark = vm_mark(context.director, request.agent_id, generation)
    notes = {
        "digest": request.digest,
        "stemcell": request.stemcell_cid,
        "addresses": sorted(addresses.of_request(request.networks)),
        objects.UNDELIVERED: True,
    }
    while True:
        membership = server_groups.ensure_group(context, request.env)
        with context.ledger.write() as tx:
            # Recorded as a member in the transaction that sees the group alive: no cleanup can come between.
            if membership.is_joinable(tx):
                row: dict[str, Any] = {"ref": request.agent_id, "properties": notes, "server_group": membership.cid}
                execute(
                    tx,
                    objects.intend(mark.intent, "vm", context.cloud, director=context.director, **row),
                    parts.begin(context.cloud, mark.intent, "vm"),
                )
                break
    return _create(context, request, mark.intent, membership.cid, notes)


def _create(context: CallContext, request: VmRequest, intent: str, group: str | None, notes: Json) -> VmCreated:
    mark, env = (
        context.mark(intent),
        agent_settings.env_with_registry(context, server_groups.env_with_group(request.env, group), intent),
    )
    parts = (request.agent_id, request.stemcell_cid, request.cloud_properties, request.networks, request.disk_cids, env)
    try:
        made = calls.call_create(context, "vm", mark, lambda: context.driver.create_vm(*parts, mark=mark))
    except CpiError as error:
        raise _as_repeatable(addresses.name_holder(context, request.agent_id, request.networks, error)) from error
    agent_settings.publish(context, intent, request.agent_id, made, env)
    _record_created(context, request.agent_id, intent, made, notes)
    return made


def _record_created(context: CallContext, agent_id: str, intent: str, made: VmCreated, notes: Json) -> None:
    """Record it, unless another call took over while this process was paused, and gave the intent up."""
    with context.ledger.write() as tx:
        mine = leases.holds(tx, context.claim_key("vm", "", agent_id), context.holder)
        row = objects.get(tx, intent)
        if mine or (row is not None and row.may_exist):
            execute(tx, objects.record_created(intent, made.cid, {**notes, "answer": [made.cid, dict(made.networks)]}))
            return
    with suppress(VMNotFound):
        context.driver.delete_vm(made.cid)
    raise VMCreationFailed(
        f"machine {made.cid} came too late and was removed again",
        why="this process was paused for longer than its lease, and another call took over",
        remedy="repeat: the answer is the machine of the other call",
        retryable=True,
    )


def _as_repeatable(error: CpiError) -> CpiError:
    """A BOSH Director repeats only after VMCreationFailed, and only if that says that nothing is left."""
    if isinstance(error, VMCreationFailed | OutcomeUnknown) or not error.retryable:
        return error
    return VMCreationFailed(error.what, why=error.why, remedy=error.remedy, retryable=True, details=error.details)


_HEALTHY = ("running", "building", None)


def _keep_or_remove(context: CallContext, row: ObjectRow, digest: str) -> bool:
    """Whether this row's machine has the same arguments and is healthy; if not, it is gone when this returns."""
    cid = row.cid or _find_cid(context, row)
    if cid is None:
        return False
    equal = (row.properties or {}).get("digest") == digest and row.state != "deleting"
    if equal and _is_healthy(context, row, cid):
        return True
    _remove_vm(context, row, cid)
    return False


def _find_cid(context: CallContext, row: ObjectRow) -> str | None:
    mark = context.mark(row.intent)
    if not calls.settle(context, "vm", mark, row.doubt_since):
        return None
    found = context.driver.find("vm", mark)
    return found.cid if found else None


def _is_healthy(context: CallContext, row: ObjectRow, cid: str) -> bool:
    if not context.driver.capabilities().finds:
        return context.driver.has_vm(cid)
    found = context.driver.find("vm", context.mark(row.intent))
    return found.state in _HEALTHY if found else context.driver.has_vm(cid)


def _remove_vm(context: CallContext, row: ObjectRow, cid: str) -> None:
    with context.ledger.write() as tx:
        execute(tx, objects.begin_delete(row.intent, cid))
    with suppress(VMNotFound):
        context.driver.delete_vm(cid)
    with context.ledger.write() as tx:
        execute(tx, objects.record_gone(row.intent))
