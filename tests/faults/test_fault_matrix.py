"""Every call of the cloud fails, is throttled, is done twice or loses its answer; every task ends well all the same."""

from __future__ import annotations

from functools import cache

import pytest

from tests.faults.bending import MODES, Bend, methods_of, run_bent
from tests.kill.bench import Bench
from tests.kill.scenario import phases

PHASES = [phase.name for phase in phases() if phase.ask != "nothing"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_every_call_is_bent_once(bench: Bench, mode: str, phase: str) -> None:
    run_bent(bench, phase, [Bend(method, mode) for method in discovered(bench, phase)])


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_bent_alone(bench: Bench, mode: str, phase: str) -> None:
    for method in discovered(bench, phase):
        run_bent(bench, phase, [Bend(method, mode)])


@cache
def discovered(bench: Bench, phase: str) -> list[str]:
    return methods_of(bench, phase)
