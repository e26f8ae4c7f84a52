"""How much work something is, as a count that no load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from coterie.ledger.store import Tx


def count_lines(work: Callable[[], object]) -> int:
    """How many lines of Python this thread runs; each round of a loop counts, also of one within a single line."""
    lines = 0

    def note(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def count_sqlite_steps(tx: Tx, work: Callable[[], object]) -> int:
    """How many instructions of its own machine SQLite runs."""
    steps = 0

    def note() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection = tx.connection.driver_connection
    assert connection is not None
    connection.set_progress_handler(note, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 1)
    return steps
