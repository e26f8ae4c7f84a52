"""docs/settings.md is what the table of settings says."""

from __future__ import annotations

from pathlib import Path

from coterie.settings import all_settings
from coterie.settings.reference import text


def test_the_page_is_up_to_date() -> None:
    assert (Path(__file__).parents[2] / "docs" / "settings.md").read_text() == text(), "run `make docs`"


def test_every_setting_has_a_row() -> None:
    assert all(f"| `{one.name}` | `{one.variable}` |" in text() for one in all_settings({"HOME": "/root"}))
