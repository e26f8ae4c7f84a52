"""Tables of text: aligned columns, numbers to the right, the last column cut to the terminal's width."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from coterie.cli.show.paint import Paint
from coterie.cli.show.plain import plain

_GAP = "  "
_STATES = ("state", "verdict", "in the cloud")


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], paint: Paint, *, state: int | None = None) -> str:
    """`state`: the column whose words are coloured."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(line[n]) for line in [list(headers), *texts]) for n in range(len(headers))]
    right = [_numbers([row[n] for row in rows]) for n in range(len(headers))]
    head = paint(_line(list(headers), widths, right), "bold")
    return "\n".join([head, *[_row(line, widths, right, paint, state) for line in texts]])


def fields(pairs: Sequence[tuple[str, Any]], paint: Paint) -> str:
    """Names and values, one per line."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{paint(name.ljust(width), 'bold')}  {_value(name, value, paint)}" for name, value in pairs)


def _value(name: str, value: Any, paint: Paint) -> str:
    return paint.state(_text(value)) if name in _STATES else _text(value)


def _row(line: list[str], widths: list[int], right: list[bool], paint: Paint, state: int | None) -> str:
    cells = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(line, widths, right, strict=True)
    ]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        cells[-1] = _cut(cells[-1].rstrip(), max(8, room))
    if state is not None:
        cells[state] = paint.state(cells[state], line[state])
    return _GAP.join(cells).rstrip()


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return _GAP.join(padded).rstrip()


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _numbers(column: Sequence[Any]) -> bool:
    given = [cell for cell in column if cell is not None]
    return bool(given) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in given)


def _text(cell: Any) -> str:
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ", ".join(plain(one) for one in cell) or "-"
    if isinstance(cell, dict):
        return plain(json.dumps(cell, ensure_ascii=False))
    return plain(cell)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
