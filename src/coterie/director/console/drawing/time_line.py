"""The time line of a task: a bar for each step from its first claim to its end, by stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from typing import Any

from coterie.director.console.drawing import svg
from coterie.director.console.render import tone
from coterie.times import read, span

Json = dict[str, Any]
_WIDTH, _LEFT, _RIGHT, _ROW = 1120.0, 210.0, 90.0, 22.0
_TICKS = 6
_SIGNS = {"ok": "●", "busy": "◐", "bad": "✕", "warn": "▲", "off": "○", "kept": "◆"}


def draw(steps: Sequence[Json], task: Json, now: float | None = None) -> str:
    """Empty where no step has begun. Steps that were not begun have no bar."""
    rows = [_times(step, now or time.time()) for step in steps if step["started_at"]]
    if not rows:
        return ""
    begin = min(read(task["created_at"]).timestamp(), min(row[1] for row in rows))
    end = max(row[2] for row in rows)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(0.02, end - begin)
    stages = {stage["n"]: stage["name"] for stage in task["stages"]}
    parts, y, last = _axis(begin, end, scale), 30.0, None
    for step, first, over in sorted(rows, key=lambda row: (row[0]["stage"], row[1], row[0]["id"])):
        if step["stage"] != last:
            last = step["stage"]
            parts.append(svg.text(0, y + 14, f"stage {stages.get(last, last)}", "line-stage"))
            y += _ROW
        parts.append(_bar(step, first, over, y, begin, scale))
        y += _ROW
    label = f"Time line: {len(rows)} steps in {_span(end - begin)}"
    lines = svg.element("g", *_lines(begin, end, scale, y), class_="line-grid")
    return (
        f'<svg class="line" viewBox="0 0 {_WIDTH:.0f} {y + 6:.0f}" width="{_WIDTH:.0f}" height="{y + 6:.0f}" '
        f'role="img" aria-label="{escape(label)}">{lines}{"".join(parts)}</svg>'
    )


def _times(step: Json, now: float) -> tuple[Json, float, float]:
    first = read(step["started_at"]).timestamp()
    over = read(step["ended_at"]).timestamp() if step["ended_at"] else now
    return step, first, max(first, over)


def _span(seconds: float) -> str:
    return span(seconds) if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _ticks(begin: float, end: float) -> list[float]:
    return [(end - begin) * n / _TICKS for n in range(_TICKS + 1)]


def _axis(begin: float, end: float, scale: float) -> list[str]:
    return [
        svg.text(_LEFT + at * scale, 14, f"+{_span(at)}", "line-tick", text_anchor="middle")
        for at in _ticks(begin, end)
    ]


def _lines(begin: float, end: float, scale: float, bottom: float) -> list[str]:
    return [
        svg.element("line", x1=round(_LEFT + at * scale, 1), x2=round(_LEFT + at * scale, 1), y1=20, y2=bottom)
        for at in _ticks(begin, end)
    ]


def _bar(step: Json, first: float, over: float, y: float, begin: float, scale: float) -> str:
    kind, x, wide = tone(step["state"]), _LEFT + (first - begin) * scale, max(3.0, (over - first) * scale)
    label = f"{step['subject']}, {step['label']}: {step['state']} after {_span(over - first)}"
    label += f", attempt {step['attempt']}" if step["attempt"] > 1 else ""
    box = svg.element("rect", x=round(x, 1), y=y + 3, width=round(wide, 1), height=_ROW - 7, rx=3)
    name = svg.text(14, y + 15, svg.cut(f"{step['subject']} {step['flow'].rpartition('.')[2]}", 30), "line-name")
    words = svg.text(x + wide + 6, y + 15, f"{_SIGNS[kind]} {_span(over - first)}", "line-span")
    return svg.element("g", svg.title(label), name, box, words, class_=f"line-bar {kind}")
