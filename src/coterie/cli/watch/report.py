"""The report of a task: what is done, what failed, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cli.show.paint import Paint
from coterie.cli.show.plain import plain
from coterie.times import took

_ORDER = ("done", "failed", "skipped", "cancelled", "running", "ready", "queued")


def report(task: Mapping[str, Any], paint: Paint) -> str:
    summed = task.get("report") or {}
    lines = [_headline(task, summed, paint)]
    failures = summed.get("failures") or []
    if failures:
        lines += ["", paint("Failed:", "red"), *[_failure(one) for one in failures]]
        lines += ["", "What is done stays done. Mend the cause, then run the same command again to go on."]
    waiting = task.get("waiting") or []
    if waiting:
        lines += ["", paint("Waiting:", "yellow"), *[f"  {plain(reason)}" for reason in waiting]]
    return "\n".join(lines)


def title(task: Mapping[str, Any]) -> str:
    return f"Task {task['id']} ({task['kind']}{' ' + task['deployment'] if task['deployment'] else ''})"


def _headline(task: Mapping[str, Any], summed: Mapping[str, Any], paint: Paint) -> str:
    counts = summed.get("steps") or {}
    steps = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts.get(state)) or _so_far(task)
    state = paint.state(task["state"])
    return f"{title(task)}: {state} after {took(task['created_at'], task['ended_at'])}, {steps}"


def _so_far(task: Mapping[str, Any]) -> str:
    progress = task["steps"]
    return f"{progress['ended']} of {progress['total']} steps ended" if progress["total"] else "nothing to do"


def _failure(one: Mapping[str, Any]) -> str:
    error = one.get("error") or {}
    what, code = plain(error.get("what", "failed")), plain(error.get("code", "failed"))
    lines = [f"  {plain(one['subject'])}: {what} ({code})"]
    lines += [f"    {name}: {plain(error[name])}" for name in ("why", "remedy") if error.get(name)]
    return "\n".join(lines)
