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
_DESELECTED = pytest.StashKey[set[str]]()  # the beds of which tests were left out


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
    config.stash[_DESELECTED] = set()
    config.pluginmanager.register(_Gatherer(config.stash[_OUTCOMES]), f"{__name__}.gatherer")


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if proven(getattr(item, "function", None)):
            item.config.stash[_DESELECTED].add(_bed(item))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Only xdist's workers collect, so only they know what was deselected."""
    left_out: set[str] = node.config.stash[_DESELECTED]
    left_out.update(getattr(node, "workeroutput", {}).get(PROPERTY, ()))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        left_out: set[str] = config.stash[_DESELECTED]
        config.workeroutput[PROPERTY] = sorted(left_out)
        return
    outcomes = config.stash[_OUTCOMES]
    if not outcomes:
        return
    config.stash[_VERDICT] = verdict = judge(outcomes, _parts(config))
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
    if parts := _parts(config):
        some = "only some tests were chosen: what is not proven is not judged"
        terminalreporter.write_line(f"{some} ({', '.join(sorted(parts))})")


def _decides(report: pytest.TestReport) -> bool:
    """A test's own phase decides; a broken setup or teardown fails it."""
    return report.when == "call" or not report.passed


def _outcome(item: pytest.Item, methods: tuple[str, ...]) -> Outcome:
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab is None:
        return Outcome(_bed(item), item.name, methods, "", bed=_bed(item))
    unsupported = {name: Excuse(name, one.why, one.citation) for name, one in lab.capabilities.unsupported.items()}
    return Outcome(lab.bed.driver, item.name, methods, "", lab.excuse, tuple(lab.refused), unsupported, _bed(item))


def _bed(item: pytest.Item) -> str:
    """The parameter of the fixture `bed`; a file with a single bed speaks for it."""
    callspec = getattr(item, "callspec", None)
    params: dict[str, Any] = callspec.params if callspec else {}
    return str(params.get("bed", item.nodeid.partition("::")[0]))


def _parts(config: pytest.Config) -> set[str]:
    """The drivers of which not all tests were chosen."""
    by_name = any("::" in str(argument) for argument in config.args)
    left_out = config.stash[_DESELECTED]
    return {one.driver for one in config.stash[_OUTCOMES] if by_name or one.bed in left_out}
