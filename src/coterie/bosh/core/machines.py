"""create_vm, repeated as often as a Director likes: one healthy machine per agent_id, or none.

The first is answered again if the arguments are equal and it is healthy; otherwise it is removed before a new one.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from coterie.bosh.core import agent_settings, grouping, groups, previous_vm
from coterie.bosh.core.call_context import Desk
from coterie.bosh.recording import creates
from coterie.bosh.recording.marks import vm_mark
from coterie.cpi.contract import CpiError, Json, Networks, OutcomeUnknown, VmCreated, VMCreationFailed, VMNotFound
from coterie.ledger.rows import objects
from coterie.ledger.rows.objects import ObjectRow
from coterie.ledger.work import leases
from coterie.ledger.writes import execute

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Order:
    agent_id: str
    stemcell_cid: str
    cloud_properties: Json
    networks: Networks
    disk_cids: tuple[str, ...]
    env: Json

    @property
    def digest(self) -> str:
        """Tells equal arguments from others, and keeps nothing of them: there are secrets in `env`."""
        parts = [self.agent_id, self.stemcell_cid, self.cloud_properties, self.networks, self.disk_cids, self.env]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def create_vm(desk: Desk, order: Order) -> VmCreated:
    agent_settings.require_registry(desk)
    key = desk.claim_of("vm", "", order.agent_id)
    _wait_for(desk, key)
    with desk.holding(key):
        with desk.book.ledger.read() as tx:
            before = objects.of_agent(tx, desk.cloud, desk.director, order.agent_id)
        for row in before:
            answer = _first(desk, order, row) if row.state != "gone" else None
            if answer:
                return answer
        return _new(desk, order, len(before))


def _wait_for(desk: Desk, key: str) -> None:
    """Until no other process works for this agent; a dead one's claim ends with its lease."""
    pause = _LOOK_S
    while True:
        with desk.book.ledger.write() as tx:
            if leases.take(tx, key, desk.holder, desk.book.lease_s):
                return
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def _first(desk: Desk, order: Order, row: ObjectRow) -> VmCreated | None:
    """The answer of an earlier call if it still holds; otherwise that call's machine is gone when this returns."""
    if not previous_vm.stands(desk, row, order.digest):
        return None
    noted = row.properties or {}
    if "answer" in noted:
        return VmCreated(noted["answer"][0], noted["answer"][1])
    return _call(desk, order, row.intent, row.server_group, noted)


def _new(desk: Desk, order: Order, generation: int) -> VmCreated:
    mark = vm_mark(desk.director, order.agent_id, generation)
    noted = {"digest": order.digest, "stemcell": order.stemcell_cid}
    while True:
        place = groups.place(desk, order.env)
        with desk.book.ledger.write() as tx:
            # Recorded as a member in the transaction that sees the group alive: a cleanup cannot come between.
            if place.holds(tx):
                row: dict[str, Any] = {"ref": order.agent_id, "properties": noted, "server_group": place.cid}
                execute(tx, objects.intend(mark.intent, "vm", desk.cloud, director=desk.director, **row))
                break
    return _call(desk, order, mark.intent, place.cid, noted)


def _call(desk: Desk, order: Order, intent: str, group: str | None, noted: Json) -> VmCreated:
    mark, env = desk.mark(intent), agent_settings.with_registry(desk, grouping.with_group(order.env, group), intent)
    parts = (order.agent_id, order.stemcell_cid, order.cloud_properties, order.networks, order.disk_cids, env)
    try:
        made = creates.called(desk, "vm", mark, lambda: desk.driver.create_vm(*parts, mark=mark))
    except CpiError as error:
        raise _failure(error) from error
    agent_settings.announce(desk, intent, order.agent_id, made, env)
    _land(desk, order.agent_id, intent, made, noted)
    return made


def _land(desk: Desk, agent_id: str, intent: str, made: VmCreated, noted: Json) -> None:
    """Write it down, unless another call took over while this process was paused and gave the intent up."""
    with desk.book.ledger.write() as tx:
        mine = leases.holds(tx, desk.claim_of("vm", "", agent_id), desk.holder)
        row = objects.get(tx, intent)
        if mine or (row is not None and row.may_exist):
            execute(tx, objects.record_created(intent, made.cid, {**noted, "answer": [made.cid, dict(made.networks)]}))
            return
    with suppress(VMNotFound):
        desk.driver.delete_vm(made.cid)
    raise VMCreationFailed(
        f"machine {made.cid} came too late and was removed again",
        why="this process was paused for longer than its lease, and another call took over",
        remedy="repeat: the machine of the other call is answered",
        retryable=True,
    )


def _failure(error: CpiError) -> CpiError:
    """A BOSH Director repeats only this one type, and only when told that nothing is left."""
    if isinstance(error, VMCreationFailed | OutcomeUnknown) or not error.retryable:
        return error
    return VMCreationFailed(error.what, why=error.why, remedy=error.remedy, retryable=True, details=error.details)
