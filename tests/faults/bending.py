"""Bends the simulated cloud while a phase of the scenario runs, and looks whether everything ends well all the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from coterie.sandbox import calls, faults
from tests.kill.bench import Bench, Failure
from tests.kill.points import Point, read_trace
from tests.kill.scenario import cloud_config
from tests.kill.world import World

MODES = ("error", "throttle", "timeout-after-commit", "timeout-before-commit", "twice")
_PATIENT = {"tries": 60}  # every call of a step may fail once before it is through


@dataclass(frozen=True, slots=True)
class Bend:
    """One call of `method`, the next one that comes, unless `times` says more."""

    method: str
    mode: str
    times: int = 1
    ms: int | None = None
    code: str | None = None
    retryable: bool | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.mode}"


def bend(world: World, bends: Iterable[Bend]) -> None:
    with world.operator() as account:
        for one in bends:
            ms = 10 if one.mode == "throttle" and one.ms is None else one.ms
            faults.add(
                account.datacenter.store,
                one.method,
                one.mode,
                times=one.times,
                ms=ms,
                code=one.code,
                retryable=one.retryable,
            )


def unused(world: World) -> list[str]:
    """Faults that bent nothing, or less than they should have."""
    with world.operator() as account:
        return [f"{left.method} {left.mode}" for left in faults.list_faults(account.datacenter.store)]


def methods_of(bench: Bench, phase: str) -> list[str]:
    """Every call of the cloud that this phase makes, from the cloud's own log; and nothing goes wrong by logging."""
    with bench.beginning(phase) as (start, world):
        with world.operator() as account:
            calls.forget(account.datacenter.store)
            calls.switch_log(account.datacenter.store, True)
        bench.finish(start, world, bench.order(start, world), "with the cloud's log on")
        with world.operator() as account:
            return sorted(calls.counts(account.datacenter.store))


def run_bent(bench: Bench, phase: str, bends: list[Bend], *, settle_s: float = 0.05, **more: Any) -> list[Point]:
    """Carry the phase out in the bent cloud; all bends must be used up, and everything as it should be."""
    with bench.beginning(phase) as (start, world):
        bend(world, bends)
        order = bench.order(start, world, options={**_PATIENT, **more})
        order = replace(order, cloud_config=cloud_config(settle_s=settle_s))
        story = ", ".join(map(str, bends))
        bench.finish(start, world, order, story)
        left = unused(world)
        if left:
            raise Failure(f"{phase}: these were to be bent, but were not called: {left}")
        return read_trace(order.trace)
