"""Colours, on a terminal only."""

from __future__ import annotations

import os
from typing import TextIO

from coterie.cli.show.plain import clean

_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1"}
_STATES = {
    "green": ("up", "live", "done", "ok", "yes", "holds", "running here"),
    "yellow": ("changing", "running", "planned", "intended", "deleting", "open", "ready", "unknown", "cancelling"),
    "red": ("failing", "failed", "dead", "missing", "broken", "no", "drifted", "error"),
    "cyan": ("kept", "reserved", "adopted", "stopped"),
    "dim": ("gone", "queued", "blocked", "skipped", "cancelled", "-"),
}
_BY_STATE = {state: colour for colour, states in _STATES.items() for state in states}
_SIGNS = {"+": "green", "±": "yellow", "~": "cyan", "-": "red"}


class Paint:
    def __init__(self, when: str, stream: TextIO) -> None:
        self.on = when == "always" or (when == "auto" and stream.isatty() and os.environ.get("TERM") != "dumb")

    def __call__(self, text: str, colour: str | None) -> str:
        if not self.on or colour is None:
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"

    def state(self, text: str, word: str | None = None) -> str:
        """`text` in the colour of the state that it (or `word`) names."""
        return self(text, _BY_STATE.get((word or text).strip()))

    def plan(self, text: str) -> str:
        """A rendered plan, each change in the colour of its sign."""
        return "\n".join(self._plan_line(clean(line)) for line in text.splitlines())

    def _plan_line(self, line: str) -> str:
        if line.endswith(":"):
            return self(line, "red" if line.startswith("Destroys") else "bold")
        sign = line[2:3] if line.startswith("  ") else ""
        if line.startswith("Note:"):
            return self(line, "yellow")
        return self(line, _SIGNS.get(sign))
