"""docs/cli.md is what the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

from coterie.cli.main import VERBS
from coterie.cli.reference import text

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == text() + "\n", "run `make docs`"


def test_every_verb_has_a_section() -> None:
    assert {f"## coterie {verb}" for verb in VERBS} <= set(PAGE.read_text().splitlines())
