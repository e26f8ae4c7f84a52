"""Every call of the cloud fails, is throttled, is done twice or loses its answer; every task ends well all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.bending import MODES, Bend, methods_of, run_bent
from tests.kill.bench import Bench
from tests.kill.scenario import phases
from tests.once import once_per_run

Methods = Callable[[str], list[str]]
PHASES = [phase.name for phase in phases() if phase.ask != "nothing"]


@pytest.fixture
def methods(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Methods:
    """The calls of a phase: the same on every database, so each phase is discovered once."""
    return lambda phase: once_per_run(tmp_path_factory, f"methods-{phase}", lambda: methods_of(bench, phase))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_every_call_is_bent_once(bench: Bench, methods: Methods, mode: str, phase: str) -> None:
    """What a cloud answers does not depend on the database: `full` bends each call on both."""
    run_bent(bench, phase, [Bend(method, mode) for method in methods(phase)])


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_bent_alone(bench: Bench, methods: Methods, mode: str, phase: str) -> None:
    for method in methods(phase):
        run_bent(bench, phase, [Bend(method, mode)])
