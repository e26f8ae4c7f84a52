"""Tables of text: aligned columns, numbers to the right, cut to the terminal's width."""

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


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    paint: Paint,
    *,
    state: int | None = None,
    spare: Sequence[str] = (),
) -> str:
    """`state`: the column whose words are coloured. `spare`: columns that are left out, in this order, while the table
    is too wide for the terminal."""
    headers, rows = _fit(headers, rows, spare)
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = _widths(headers, texts)
    right = [_numbers([row[n] for row in rows]) for n in range(len(headers))]
    head = paint(_line(list(headers), widths, right), "bold")
    return "\n".join([head, *[_row(line, widths, right, paint, state) for line in texts]])


def without_empty(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], column: str
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The same without a column in which no row has a value."""
    n = headers.index(column)
    return (headers, rows) if any(_text(row[n]) != "-" for row in rows) else _without(headers, rows, n)


def fields(pairs: Sequence[tuple[str, Any]], paint: Paint) -> str:
    """Names and values, one per line."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{paint(name.ljust(width), 'bold')}  {_value(name, value, paint)}" for name, value in pairs)


def _fit(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], spare: Sequence[str]
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    if not sys.stdout.isatty():
        return headers, rows
    room = shutil.get_terminal_size().columns
    for name in spare:
        widths = _widths(headers, [[_text(cell) for cell in row] for row in rows])
        if sum(widths) + len(_GAP) * (len(widths) - 1) <= room:
            break
        if name in headers:
            headers, rows = _without(headers, rows, headers.index(name))
    return headers, rows


def _without(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], n: int
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    return [*headers[:n], *headers[n + 1 :]], [[*row[:n], *row[n + 1 :]] for row in rows]


def _widths(headers: Sequence[str], texts: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[n]) for line in [headers, *texts]) for n in range(len(headers))]


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
