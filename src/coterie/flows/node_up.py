"""When is a node up: its VM runs in the cloud, and its health check passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CloudObject, Mark, VMCreationFailed
from coterie.engine.flow import Done, Flow, Move, Next, Wait, Work
from coterie.errors import DeadlineExceeded
from coterie.flows import health
from coterie.flows.node_vm import Subject, subject
from coterie.ledger.rows import nodes

_VM_TRIES = 3


class UpLabels(Flow):
    """The last label of every flow that leaves a running node behind."""

    def await_up(self, work: Work) -> Move:
        node = subject(work)
        found = _look(work)
        state = found.state if found else None
        if state in ("error", "stopped"):
            return self.replace_broken(work, str(state))
        problem = f"its VM is {state or 'not visible yet'}" if state != "running" else None
        problem = problem or health.problem(work.data["wish"]["health"], _address(node))
        if problem:
            return self._not_yet(work, problem)
        work.write(
            nodes.change(
                node.uuid,
                state="up",
                spec=work.data["wish"],
                host=found.host if found else None,
                problem=None,
            )
        )
        work.say("node.up", f"{work.data['cid']} on {found.host}" if found and found.host else work.data["cid"])
        return Done()

    def replace_broken(self, work: Work, state: str) -> Move:
        """A VM that came up broken is replaced a few times before a person is asked."""
        work.data["tries"] = work.data.get("tries", 0) + 1
        if work.data["tries"] >= _VM_TRIES:
            raise VMCreationFailed(
                f"the VM of {work.claim.subject} came up in state {state} {_VM_TRIES} times",
                remedy="look at the cloud's own log of that VM; the last one is kept for you to see",
            )
        work.data.pop("up_by", None)
        work.say("vm.broken", f"VM {work.data['cid']} is in state {state}; replacing it")
        return Next("retire")

    def _not_yet(self, work: Work, problem: str) -> Move:
        now = work.moment
        up_by = work.data.setdefault("up_by", now + work.data["wish"]["watch_s"])
        if now >= up_by:
            raise DeadlineExceeded(
                f"{work.claim.subject} did not come up within {work.data['wish']['watch_s']} s",
                why=problem,
                remedy="see why on the machine or in the cloud; then deploy again, which makes it anew",
            )
        interval = (work.data["wish"]["health"] or {}).get("interval_s", 1.0)
        return Wait(min(interval, up_by - now), problem, "await_up")


def vm_labels(node: Subject, wish: Mapping[str, Any], director: str) -> dict[str, str]:
    """The metadata that a person sees on the VM, as BOSH names it."""
    return {
        **{str(key): str(value) for key, value in wish["tags"].items()},
        "director": director,
        "deployment": node.deployment,
        "id": node.uuid,
        "job": node.instance_group,
        "instance_group": node.instance_group,
        "index": str(node.index),
        "name": node.name,
    }


def _look(work: Work) -> CloudObject | None:
    if work.cpi.capabilities().finds:
        return work.cpi.find("vm", Mark(work.director_uuid, work.data["vm"]))
    if not work.cpi.has_vm(work.data["cid"]):
        return None
    return CloudObject("vm", work.data["cid"], "", state="running")


def _address(node: Subject) -> str | None:
    return next(iter(node.addresses.values()), None)
