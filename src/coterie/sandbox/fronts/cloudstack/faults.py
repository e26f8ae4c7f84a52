"""Faults of this front: what happens before a command, to its work, and to its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.sandbox import calls, faults
from coterie.sandbox.api import hang
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.faults import Fault
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, THROTTLED, ApiError
from coterie.sandbox.twist import STRAIGHT, Twist


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` None: the answer is lost on the way."""

    status: int | None
    body: dict[str, Any]


def run_with_faults(
    datacenter: Datacenter, command: str, arguments: Mapping[str, str], do: Callable[[Twist], dict[str, Any]]
) -> Reply:
    """The command's reply, after all faults that are meant for it."""
    active = _take_faults(datacenter, command, arguments)
    if not active:
        return Reply(200, do(STRAIGHT))
    for fault in active:
        _before(datacenter, fault)
    modes = {fault.mode for fault in active}
    if "timeout-before-commit" in modes:
        return Reply(None, {})
    twist = Twist(_longest(active, "late-visibility"), "vm-error-state" in modes, _longest(active, "slow-build"))
    if "twice" in modes:
        do(twist)
    body = do(twist)
    if "error-after-commit" in modes:
        raise _injected_error()
    return Reply(None if "timeout-after-commit" in modes else 200, body)


def _take_faults(datacenter: Datacenter, command: str, arguments: Mapping[str, str]) -> list[Fault]:
    with datacenter.store.reading() as db:
        if not calls.switches(db).faults:
            return []
    return faults.take(datacenter.store, command, lambda db: "\n".join(arguments.values()))


def _before(datacenter: Datacenter, fault: Fault) -> None:
    if fault.mode == "latency":
        datacenter.sleep((fault.ms or 0) / 1000)
    elif fault.mode == "hang":
        hang(datacenter, fault)
    elif fault.mode == "throttle":
        raise ApiError(THROTTLED, "The given user has reached his/her account api limit, please retry later.")
    elif fault.mode == "error":
        raise _injected_error()


def _injected_error() -> ApiError:
    return ApiError(INTERNAL, "an injected fault")


def _longest(active: list[Fault], mode: str) -> float:
    return max((fault.ms or 0 for fault in active if fault.mode == mode), default=0) / 1000
