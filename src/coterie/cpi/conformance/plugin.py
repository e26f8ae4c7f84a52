"""The kit's pytest plugin: gathers outcomes (through xdist too), prints the table, fails a run that proves too little.

Load it with `-p coterie.cpi.conformance.plugin`, so that an xdist controller has it as well.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from coterie.cpi.conformance.proof import PROPERTY, Excuse, Outcome, proven
from coterie.cpi.conformance.verdict import Verdict, judge, table

_OUTCOMES = pytest.StashKey[list[Outcome]]()
_VERDICT = pytest.StashKey[Verdict]()
LONG = "full"  # the marker of long runs
_DESELECTED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    methods = proven(getattr(item, "function", None))
    if methods and _decides(report):
        report.user_properties.append((PROPERTY, _outcome(item, methods).wire()))
    return report


class _Gatherer:
    """Registered per run: `pytest_runtest_logreport` is not told the configuration."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self._outcomes = outcomes

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and _decides(report):
                self._outcomes.append(Outcome.of_wire(value, report.outcome))  # type: ignore[arg-type] # ours


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OUTCOMES] = []
    config.pluginmanager.register(_Gatherer(config.stash[_OUTCOMES]), f"{__name__}.gatherer")


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        # Of a driver that is left to the long run no test was chosen, so nothing is concluded from those of others.
        if proven(getattr(item, "function", None)) and item.get_closest_marker(LONG) is None:
            item.config.stash[_DESELECTED] = True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Only xdist's workers collect, so only they know what was deselected."""
    if getattr(node, "workeroutput", {}).get(PROPERTY):
        node.config.stash[_DESELECTED] = True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[PROPERTY] = config.stash.get(_DESELECTED, False)
        return
    outcomes = config.stash[_OUTCOMES]
    if not outcomes:
        return
    config.stash[_VERDICT] = verdict = judge(outcomes, _whole(config))
    if verdict.complaints and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    verdict = config.stash.get(_VERDICT, None)
    if verdict is None:
        return
    terminalreporter.section("CPI conformance")
    for line in table(verdict):
        terminalreporter.write_line(line)
    for complaint in verdict.complaints:
        terminalreporter.write_line(f"FAILED {complaint}", red=True)
    if not _whole(config):
        terminalreporter.write_line("only some tests were chosen: what is not proven is not judged")


def _decides(report: pytest.TestReport) -> bool:
    """A test's own phase decides; a broken setup or teardown fails it."""
    return report.when == "call" or not report.passed


def _outcome(item: pytest.Item, methods: tuple[str, ...]) -> Outcome:
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab is None:
        return Outcome(_fallback(item), item.name, methods, "")
    unsupported = {name: Excuse(name, one.why, one.citation) for name, one in lab.capabilities.unsupported.items()}
    return Outcome(lab.bed.driver, item.name, methods, "", lab.excuse, tuple(lab.refused), unsupported)


def _fallback(item: pytest.Item) -> str:
    """The bed broke before it could say its name; its parameter is the next best."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.id) if callspec else item.nodeid.partition("::")[0]


def _whole(config: pytest.Config) -> bool:
    by_name = any("::" in str(argument) for argument in config.args)
    return not by_name and not config.stash.get(_DESELECTED, False)
