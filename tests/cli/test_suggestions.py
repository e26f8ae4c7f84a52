"""A mistyped verb: a near one is suggested, one that destroys never."""

from __future__ import annotations

import pytest

from coterie.cli.frame.suggest import DESTRUCTIVE, suggest
from coterie.cli.main import VERBS
from tests.cli.conftest import Machine


@pytest.mark.parametrize(
    ("word", "verb"),
    [("plna", "plan"), ("node", "nodes"), ("deplooy", "deploy"), ("tsaks", "tasks"), ("evants", "events")],
)
def test_one_slip_is_recognized(word: str, verb: str) -> None:
    assert suggest(word, VERBS) == verb


@pytest.mark.parametrize("word", ["destroy", "logs", "recreate", "apply", "delet", "celanup", "d", "ssh-keygen", ""])
def test_far_and_dangerous_verbs_are_not_suggested(word: str) -> None:
    assert suggest(word, VERBS) is None
    assert suggest(word, ["create", "delete", "recreate", "show"]) is None


def test_no_slip_leads_to_a_verb_that_destroys() -> None:
    for verb in DESTRUCTIVE:
        assert suggest(verb[:-1], [*VERBS, *DESTRUCTIVE]) not in DESTRUCTIVE


@pytest.mark.parametrize("words", [("destroy",), ("nodes", "recreates"), ("logs",), ("disks", "delet")])
def test_the_command_line_points_to_its_help_instead(machine: Machine, words: tuple[str, ...]) -> None:
    done = machine.run(*words)
    assert done.code == 2
    assert "Did you mean" not in done.err and "--help` lists the verbs" in done.err


def test_the_command_line_suggests_a_near_verb_of_a_noun(machine: Machine) -> None:
    assert "Did you mean 'show'?" in machine.run("tasks", "shwo").err
