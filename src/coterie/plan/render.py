"""A plan as text for people: summary first and last, what destroys on top in a block of its own."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.plan.model import Change, GroupChange, Plan

_SIGNS = {"create": "+", "adopt": "+", "recreate": "±", "update": "~", "delete": "-", "leave": "-"}
_SHOWN = 12


def text(plan: Plan, detail: bool = False) -> str:
    """All of it with `detail`; otherwise long runs of like changes are summed up, never the destructive ones."""
    if not plan.changes:
        return "\n".join([f"Deployment {plan.deployment}: nothing to change.", *_notes(plan)]) + "\n"
    destructive = [change for change in plan.changes if change.destructive]
    others = [change for change in plan.changes if not change.destructive]
    lines = [_summary(plan), ""]
    if destructive:
        lines += ["Destroys or interrupts:", *_rows(destructive, len(destructive)), ""]
    if others:
        title = "Other changes:" if destructive else "Changes:"
        lines += [title, *_rows(others, len(others) if detail else _SHOWN), ""]
    lines += [*_notes(plan), _summary(plan)]
    return "\n".join(lines) + "\n"


def _summary(plan: Plan) -> str:
    counts = plan.counts()
    parts = [f"{counts[action]} to {action}" for action in _SIGNS if counts.get(action)]
    return f"Deployment {plan.deployment}: {', '.join(parts)} (plan {plan.id})"


def _rows(changes: list[Change], limit: int) -> Iterable[str]:
    width = max(len(f"{change.kind} {change.subject}") for change in changes)
    for change in changes[:limit]:
        what = f"{change.kind} {change.subject}"
        place = f"{change.cloud}/{change.az}" if change.az else change.cloud
        yield f"  {_SIGNS[change.action]} {change.action:<8} {what:<{width}}  {place:<12} {change.reason}".rstrip()
        if isinstance(change.details, GroupChange):
            yield from (f"      {line}" for line in change.details.rules)
    left = changes[limit:]
    if left:
        yield f"    … and {len(left)} more ({_tally(left)}); --detail shows them"


def _tally(changes: list[Change]) -> str:
    counts: dict[str, int] = {}
    for change in changes:
        key = f"{change.action} {change.kind}"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{count} × {key}" for key, count in counts.items())


def _notes(plan: Plan) -> list[str]:
    return [f"Note: {note}" for note in plan.notes]
