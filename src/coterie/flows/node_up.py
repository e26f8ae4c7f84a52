"""When is a node up: its VM runs in the cloud, and its health check passes."""

from __future__ import annotations

import http.client
import socket

from coterie.cpi.contract import CloudObject, Mark, VMCreationFailed
from coterie.engine.compute_slot import SLOT
from coterie.engine.flow import Done, Move, Next, Wait
from coterie.errors import DeadlineExceeded
from coterie.flows.node_params import CreateNode, NodeWork, RecreateNode
from coterie.ledger.rows import nodes
from coterie.plan.spec import HealthSpec

_VM_TRIES = 3


def wait_until_up(work: NodeWork) -> Move:
    """The last label of every flow that leaves a running node behind."""
    node, cid = work.params.node, work.progress.cid or ""
    found = _find_vm(work)
    state = found.state if found else None
    if state in ("error", "stopped"):
        return _replace_broken(work, str(state))
    problem = f"its VM is {state or 'not visible yet'}" if state != "running" else None
    problem = problem or health_problem(node.spec.health, next(iter(node.addresses.values()), None))
    if problem:
        return _wait_for(work, problem)
    host = found.host if found else None
    work.write(nodes.record_up(work.node, node.spec.wire(), host))
    work.say("node.up", f"{cid} on {host}" if host else cid)
    return Done()


def _find_vm(work: NodeWork) -> CloudObject | None:
    vm, cid = work.progress.vm or "", work.progress.cid or ""
    if work.cpi.capabilities().finds:
        return work.cpi.find("vm", Mark(work.director_uuid, vm))
    return CloudObject("vm", cid, "", state="running") if work.cpi.has_vm(cid) else None


def _replace_broken(work: NodeWork, state: str) -> Move:
    """A VM that this step made is replaced a few times before the step fails; one that it found is left."""
    if not isinstance(work.params, CreateNode | RecreateNode):
        raise VMCreationFailed(
            f"the VM of {work.claim.subject} is in state {state}", remedy="deploy again, which makes it anew"
        )
    work.progress.tries += 1
    if work.progress.tries >= _VM_TRIES:
        raise VMCreationFailed(
            f"the VM of {work.claim.subject} came up in state {state} {_VM_TRIES} times",
            remedy="look at the cloud's own log of that VM; the last one is kept for you to see",
        )
    work.progress.up_by = None
    work.say("vm.broken", f"VM {work.progress.cid} is in state {state}; replacing it")
    return Next("retire")


def _wait_for(work: NodeWork, problem: str) -> Move:
    now, spec = work.moment, work.params.node.spec
    if work.progress.up_by is None:
        work.progress.up_by = now + spec.watch_s
    left = work.progress.up_by - now
    if left <= 0:
        raise DeadlineExceeded(
            f"{work.claim.subject} did not come up within {spec.watch_s} s",
            why=problem,
            remedy="see why on the machine or in the cloud; then deploy again, which makes it anew",
        )
    return Wait(min(spec.health.interval_s if spec.health else 1.0, left), problem, "await_up")


def health_problem(health: HealthSpec | None, address: str | None) -> str | None:
    """What is wrong, in words, or None when the check passes."""
    if health is None or health.kind == "none":
        return None
    if address is None:
        return "it has no address to check"
    SLOT.release()
    port = health.port or 0
    try:
        if health.kind == "http":
            return _http_problem(health, address, port)
        socket.create_connection((address, port), timeout=health.timeout_s).close()
        return None
    except OSError as error:
        return f"{health.kind} check of {address} port {port}: {error.strerror or error}"
    except http.client.HTTPException as error:
        return f"http check of {address} port {port}: {type(error).__name__}"


def _http_problem(health: HealthSpec, address: str, port: int) -> str | None:
    connection = http.client.HTTPConnection(address, port, timeout=health.timeout_s)
    try:
        connection.request("GET", health.path)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status == health.expect:
        return None
    return f"http check of {address} port {port}: answered {status}, not {health.expect}"
