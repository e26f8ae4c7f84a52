"""Faults at this front's door: what is done before a command, how its work is bent, and what becomes of its answer."""

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


def bent(
    datacenter: Datacenter, command: str, asked: Mapping[str, str], do: Callable[[Twist], dict[str, Any]]
) -> Reply:
    """The command's reply, after all faults that are meant for it."""
    taken = _taken(datacenter, command, asked)
    if not taken:
        return Reply(200, do(STRAIGHT))
    for fault in taken:
        _before(datacenter, fault)
    modes = {fault.mode for fault in taken}
    if "timeout-before-commit" in modes:
        return Reply(None, {})
    twist = Twist(_longest(taken, "late-visibility"), "vm-error-state" in modes, _longest(taken, "slow-build"))
    if "twice" in modes:
        do(twist)
    body = do(twist)
    if "error-after-commit" in modes:
        raise _injected()
    return Reply(None if "timeout-after-commit" in modes else 200, body)


def _taken(datacenter: Datacenter, command: str, asked: Mapping[str, str]) -> list[Fault]:
    with datacenter.store.reading() as db:
        if not calls.switches(db).faults:
            return []
    return faults.take(datacenter.store, command, lambda db: "\n".join(asked.values()))


def _before(datacenter: Datacenter, fault: Fault) -> None:
    if fault.mode == "latency":
        datacenter.sleep((fault.ms or 0) / 1000)
    elif fault.mode == "hang":
        hang(datacenter, fault)
    elif fault.mode == "throttle":
        raise ApiError(THROTTLED, "The given user has reached his/her account api limit, please retry later.")
    elif fault.mode == "error":
        raise _injected()


def _injected() -> ApiError:
    return ApiError(INTERNAL, "an injected fault")


def _longest(taken: list[Fault], mode: str) -> float:
    return max((fault.ms or 0 for fault in taken if fault.mode == mode), default=0) / 1000
