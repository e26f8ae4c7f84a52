"""The pytest plugin, as a driver's author meets it: the table, and the exit status of the whole run."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

# A bed for a driver of which only `capabilities` is ever asked.
BED = """
import pytest
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.conformance.verdict import CONTRACT
from coterie.cpi.contract import Capabilities, Reason

class Driver:
    def capabilities(self):
        return Capabilities("toy", unsupported={"find": Reason("it has no list", "manual, page 7")})

class Bed:
    driver, azs, director_uuid, operator, faults, limits = "toy", ("z1",), "u", None, None, {}
    def open(self, director_uuid=None):
        return Driver()
    def inventory(self):
        return frozenset()

@pytest.fixture
def bed():
    return Bed()

@pytest.fixture
def lab(bed):
    return Lab(bed)

@proves(*(name for name in CONTRACT if name not in ("find", "ping")))
def test_most(lab):
    lab.refused.append("find")
"""
PING = """
@proves("ping")
def test_ping(lab):
    pass
"""
TWO_BEDS = """
@pytest.fixture(params=["near", pytest.param("far", marks=pytest.mark.far)])
def bed(request):
    return Bed()
"""
EXCUSED = """
@proves("find")
def test_find(lab):
    lab.needs("find")
    raise AssertionError("not reached")
"""


@pytest.fixture(autouse=True)
def _few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner runs start faster without everything that happens to be installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


PLUGIN = ("-p", "coterie.cpi.conformance.plugin", "-p", "no:cacheprovider")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_whole_run_prints_the_table_and_succeeds(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(BED + PING + EXCUSED)
    result = pytester.runpytest_subprocess(*PLUGIN, *workers)
    result.assert_outcomes(passed=2, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["method * toy", "ping * ok", "find * n/a [[]1[]]", "[[]1[]] it has no list (manual, page 7)"]
    )


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_method_without_proof_fails_a_run_whose_tests_all_pass(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(BED)
    result = pytester.runpytest_subprocess(*PLUGIN, *workers)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED toy: ping: no test of it passed"])


@pytest.mark.parametrize("skip", ["pytest.skip('no time')", "lab.operator", "lab.faults", "lab.address"])
def test_a_skip_that_the_capabilities_do_not_excuse_fails_the_run(pytester: pytest.Pytester, skip: str) -> None:
    body = skip if skip != "lab.address" else "lab.bed.address = lambda az: None; lab.address()"
    pytester.makepyfile(BED + PING + f"\n@proves('ping')\ndef test_lazy(lab):\n    {body}\n")
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=2, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED toy: test_lazy was skipped without a reason and a citation*"])


def test_a_broken_bed_fails_the_methods_it_kept_from_being_proven(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BED.replace("return Bed()", "raise OSError('no cloud')") + PING)
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["ping * FAILED"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_chosen_part_is_not_judged(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(BED + PING)
    result = pytester.runpytest_subprocess(*PLUGIN, *workers, "-k", "most")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["only some tests were chosen*"])


def test_a_choice_that_leaves_the_kit_whole_is_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BED + "\ndef test_other():\n    pass\n")
    result = pytester.runpytest_subprocess(*PLUGIN, "-k", "most")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED toy: ping: no test of it passed"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_driver_that_is_left_out_excuses_no_other(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(BED.replace("@pytest.fixture\ndef bed():\n    return Bed()", TWO_BEDS))
    result = pytester.runpytest_subprocess(*PLUGIN, *workers, "-m", "not far")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED toy: ping: no test of it passed"])


def test_a_test_named_by_its_id_is_not_judged(pytester: pytest.Pytester) -> None:
    file = pytester.makepyfile(BED)
    assert pytester.runpytest_subprocess(*PLUGIN, f"{file}::test_most").ret == 0


def test_without_the_kit_nothing_is_printed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_other():\n    pass\n")
    result = pytester.runpytest_subprocess(*PLUGIN)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*conformance*")
