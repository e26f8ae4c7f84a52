"""A plan as text for people: summary first and last, what destroys on top in a block of its own."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.plan.model import Change, GroupChange, NodeChange, Plan

_SIGNS = {
    "create": "+",
    "adopt": "+",
    "recreate": "±",
    "update": "~",
    "restart": "±",
    "stop": "-",
    "start": "+",
    "delete": "-",
    "leave": "-",
}
_SHOWN = 12


def text(plan: Plan, detail: bool = False) -> str:
    """All of it with `detail`; otherwise long runs of like changes are summed up. Of the destructive ones only nodes of
    one instance group that are recreated for one reason are, and deletions stand before them."""
    if not plan.changes and not plan.switches:
        return "\n".join([f"Deployment {plan.deployment}: nothing to change.", *_notes(plan)]) + "\n"
    # A stable sort: within each kind of change the order of the plan.
    destructive = sorted((one for one in plan.changes if one.destructive), key=lambda one: one.action != "delete")
    others = [change for change in plan.changes if not change.destructive]
    lines = [_summary(plan), ""]
    if destructive:
        rows = _rows(destructive, len(destructive)) if detail else _fold_rows(destructive)
        lines += ["Destroys or interrupts:", *rows, ""]
    if others:
        title = "Other changes:" if destructive else "Changes:"
        lines += [title, *_rows(others, len(others) if detail else _SHOWN), ""]
    if plan.switches:
        lines += ["Switches:", *(f"  ~ {switch}" for switch in plan.switches), ""]
    lines += [*_rollouts(plan), *_notes(plan), _summary(plan)]
    return "\n".join(lines) + "\n"


def _summary(plan: Plan) -> str:
    counts = plan.counts()
    parts = [f"{counts[action]} to {action}" for action in _SIGNS if counts.get(action)]
    parts += [f"{len(plan.switches)} to switch"] if plan.switches else []
    return f"Deployment {plan.deployment}: {', '.join(parts)} (plan {plan.id})"


def _fold_rows(changes: list[Change]) -> Iterable[str]:
    """Where there are many, nodes of one instance group that are recreated for one reason are one row."""
    if len(changes) <= _SHOWN:
        yield from _rows(changes, len(changes))
        return
    alike: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        own = change.details.instance_group if isinstance(change.details, NodeChange) else change.subject
        unique = "" if change.action == "recreate" else change.subject
        alike.setdefault((change.action, change.kind, own, change.reason, change.cloud, unique), []).append(change)
    width = max(len(f"{run[0].kind} {run[0].subject}") for run in alike.values())
    for run in alike.values():
        if len(run) == 1:
            yield from _rows(run, 1, width)
        else:
            first, azs = run[0], dict.fromkeys(change.az for change in run if change.az)
            what = f"{len(run)} {first.kind}s of {first.subject.rpartition('/')[0]}"
            where = f"{first.cloud}/{','.join(azs)}"
            yield f"  {_SIGNS[first.action]} {first.action:<8} {what:<{width}}  {where:<12} {first.reason}"
            yield "      --detail shows them"


def _rows(changes: list[Change], limit: int, width: int = 0) -> Iterable[str]:
    width = width or max(len(f"{change.kind} {change.subject}") for change in changes)
    for change in changes[:limit]:
        what = f"{change.kind} {change.subject}"
        place = f"{change.cloud}/{change.az}" if change.az else change.cloud
        yield f"  {_SIGNS[change.action]} {change.action:<8} {what:<{width}}  {place:<12} {_describe(change)}".rstrip()
        if isinstance(change.details, GroupChange):
            yield from (f"      {line}" for line in change.details.rules)
    left = changes[limit:]
    if left:
        yield f"    … and {len(left)} more ({_tally(left)}); --detail shows them"


def _describe(change: Change) -> str:
    """The reason, and what a new node gets."""
    details = change.details
    if change.action != "create" or not isinstance(details, NodeChange):
        return change.reason
    told = [change.reason, *(_address(details, network) for network in details.addresses)]
    if details.spec.disk is not None:
        told.append(f"disk of {details.spec.disk.size_mb} MiB")
    return "; ".join(told)


def _address(details: NodeChange, network: str) -> str:
    """Another deployment may take an open one first."""
    return f"{network} {details.addresses[network]}{' or next' if network in details.open_networks else ''}"


def _rollouts(plan: Plan) -> list[str]:
    """How nodes that are there are changed: in which order, and how many at once."""
    interrupted = {
        change.details.instance_group
        for change in plan.changes
        if change.action in ("recreate", "update") and isinstance(change.details, NodeChange)
    }
    return [
        f"Rollout of {one.instance_group}: {_canaries(one.canaries)}{one.max_in_flight} at once"
        for one in plan.rollouts
        if one.instance_group in interrupted
    ]


def _canaries(count: int) -> str:
    return f"{count} {'canary' if count == 1 else 'canaries'} first, then " if count else ""


def _tally(changes: list[Change]) -> str:
    counts: dict[str, int] = {}
    for change in changes:
        key = f"{change.action} {change.kind}"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{count} × {key}" for key, count in counts.items())


def _notes(plan: Plan) -> list[str]:
    return [f"Note: {note}" for note in plan.notes]
