"""A cleanup for people: what would go on top, then what is kept and why, and a sum at the beginning and the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cli.show.paint import Paint
from coterie.cli.show.table import table

Json = Mapping[str, Any]
_SHOWN = 50  # kept ones, unless --detail


def picture(run: Json, findings: Sequence[Json], paint: Paint, *, detail: bool) -> str:
    plan = run["plan"]
    summary = _summary(run, plan)
    parts = [summary]
    if plan["items"]:
        parts.append(_items(plan["items"], paint))
    if plan["stopped"]:
        lines = [f"  {one['kind']} in {one['cloud']}: {one['reason']}" for one in plan["stopped"]]
        parts.append("\n".join([paint("Not surveyed, so nothing of it is touched:", "red"), *lines]))
    unlisted = {one["cloud"]: one["reason"] for one in run["surveys"] if one["state"] == "unlisted"}
    if unlisted:
        lines = [f"  {cloud}: {reason}" for cloud, reason in unlisted.items()]
        parts.append(
            "\n".join(["Clouds that cannot be listed; settle their objects with `coterie nodes settle`:", *lines])
        )
    acted = {item["finding"] for item in plan["items"]}
    rest = [one for one in findings if one["id"] not in acted]
    if rest:
        parts.append(_rest(rest, paint, detail))
        parts.append(summary)
    return "\n\n".join(parts)


def items_table(items: Sequence[Json], paint: Paint) -> str:
    rows = [(i["action"], i["kind"], i["cloud"], i["cid"] or i["intent"], i["name"], i["reason"]) for i in items]
    return table(("ACTION", "KIND", "CLOUD", "CID", "NAME", "WHY"), rows, paint)


def _items(items: Sequence[Json], paint: Paint) -> str:
    return f"{paint('Would be done:', 'yellow')}\n{items_table(items, paint)}"


def _rest(rest: Sequence[Json], paint: Paint, detail: bool) -> str:
    shown = rest if detail else rest[:_SHOWN]
    rows = [
        (r["verdict"].replace("_", " "), r["kind"], r["cloud"], r["cid"] or r["intent"], r["reason"]) for r in shown
    ]
    text = table(("VERDICT", "KIND", "CLOUD", "CID", "WHY IT STAYS"), rows, paint)
    more = len(rest) - len(shown)
    return f"{text}\n… and {more} more: --detail" if more else text


def _summary(run: Json, plan: Json) -> str:
    found: Counter[str] = Counter()
    for survey in run["surveys"]:
        found.update(survey["counts"] or {})
    words = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in sorted(found.items())) or "nothing"
    calls = sum(survey["calls"] for survey in run["surveys"])
    actions = Counter(item["action"] for item in plan["items"])
    todo = ", ".join(f"{count} to {action}" for action, count in sorted(actions.items())) or "nothing to do"
    stopped = f", {len(plan['stopped'])} kinds not surveyed" if plan["stopped"] else ""
    return f"Cleanup {run['id']}: {todo}{stopped} (found: {words}; {calls} calls)"
