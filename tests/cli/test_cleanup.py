"""`coterie cleanup` as a user runs it: dry run, saved plan, apply, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Machine

AT_ONCE = ("--grace", "0", "--undo-window", "0", "--keep-stemcells", "0")


@pytest.fixture
def left(machine: Machine) -> Iterator[Machine]:
    machine.furnish()
    assert machine.run("deploy", "web.yml").code == 0
    yield machine


def test_from_dry_run_to_an_empty_cloud(left: Machine) -> None:
    clean = left.run("cleanup", "--exit-code", *AT_ONCE)
    assert clean.code == 0
    assert "nothing to do" in clean.out
    assert left.run("delete", "web", "--abandon").code == 4, "there is no terminal to confirm at"
    assert left.run("delete", "web", "--abandon", "--yes").code == 0
    dry = left.run("cleanup", "--exit-code", "--save", "plan.json", *AT_ONCE)
    assert dry.code == 3
    assert "Would be done:" in dry.out
    refused = left.run("cleanup", "apply", "plan.json")
    assert refused.code == 4
    assert "cleanup apply plan.json --yes" in refused.err
    done = left.run("cleanup", "apply", "plan.json", "--yes")
    assert done.code == 0, done.err
    assert "6 deleted" in done.err
    again = left.run("cleanup", "apply", "plan.json", "--yes")
    assert again.code == 6
    after = left.run("cleanup", "-o", "json", *AT_ONCE)
    assert after.json["plan"]["items"] == []
    assert [run["state"] for run in left.run("cleanup", "status", "-o", "json").json["cleanups"]][1] == "swept"


def test_an_edited_plan_is_refused(left: Machine) -> None:
    left.run("delete", "web", "--abandon", "--yes")
    left.run("cleanup", "--save", "plan.json", *AT_ONCE)
    path = left.folder / "plan.json"
    saved = json.loads(path.read_text())
    saved["plan"]["items"].pop()
    path.write_text(json.dumps(saved))
    refused = left.run("cleanup", "apply", "plan.json", "--yes")
    assert refused.code == 6
    assert "was changed after it was saved" in refused.err


@pytest.mark.parametrize("words", [("--name", ""), ("--name", "a"), ("--kinds", "ghost"), ("--grace", "soon")])
def test_nonsense_is_a_usage_error(shared: Machine, words: tuple[str, ...]) -> None:
    assert shared.run("cleanup", *words).code == 2


def test_undo_wants_to_know_which(shared: Machine) -> None:
    assert shared.run("cleanup", "undo").code == 2
    assert shared.run("cleanup", "undo", "ghost").code == 5
