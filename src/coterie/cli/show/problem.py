"""An error on stderr: what failed, why, what to do, its code and task; as text or JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from coterie.cli.show.paint import Paint
from coterie.cli.show.plain import clean, plain
from coterie.errors import CoterieError


def print_problem(error: CoterieError, *, as_json: bool) -> None:
    problem = _problem(error)
    if as_json:
        click.echo(clean(json.dumps(problem, ensure_ascii=False)), err=True)
        return
    paint = Paint("never" if os.environ.get("NO_COLOR") else "auto", sys.stderr)
    for line in _lines(problem, paint):
        click.echo(line, err=True)


def _problem(error: CoterieError) -> dict[str, Any]:
    given = getattr(error, "problem", None)
    if given:
        return dict(given)
    details = dict(error.details)
    mistakes, task = details.pop("mistakes", None), details.pop("task_id", None)
    why = "" if mistakes else error.why
    return {**error.facts(), "why": why, "details": details or None, "mistakes": mistakes, "task_id": task}


def _lines(problem: dict[str, Any], paint: Paint) -> list[str]:
    mistakes = problem.get("mistakes") or []
    what = problem.get("what") or problem.get("detail") or "failed"
    if mistakes and mistakes[0].get("file"):
        what = f"{len(mistakes)} {'mistake' if len(mistakes) == 1 else 'mistakes'} in what you gave"
    lines = [f"{paint('error:', 'red')} {plain(what)}"]
    lines += [f"  {plain(words)}" for words in map(_mistake, mistakes) if words != what]
    reasons = (problem.get("details") or {}).get("reasons") or []
    lines += [f"  - {plain(reason)}" for reason in reasons]
    if problem.get("why") and not mistakes and not reasons:
        lines.append(f"  why:    {plain(problem['why'])}")
    if problem.get("remedy") and not (mistakes and mistakes[0].get("remedy")):
        lines.append(f"  remedy: {plain(problem['remedy'])}")
    lines.append(paint(f"  code:   {plain(problem.get('code'))}{_task(problem)}", "dim"))
    return lines


def _mistake(one: dict[str, Any]) -> str:
    place = ":".join(str(one[name]) for name in ("file", "line", "column") if one.get(name) is not None)
    words = ": ".join(part for part in (place, one.get("field"), one.get("what")) if part)
    return f"{words}. {one['remedy']}" if one.get("remedy") else words


def _task(problem: dict[str, Any]) -> str:
    return f", task {problem['task_id']}" if problem.get("task_id") else ""
