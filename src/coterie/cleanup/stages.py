"""A plan as stages and steps: first what is only written down, then deletions, kind after kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from coterie.cleanup.options import Options
from coterie.cleanup.scope import Row
from coterie.cleanup.sweep import ORDER
from coterie.errors import Conflict
from coterie.ledger.rows import clouds, deployments
from coterie.ledger.store import Tx
from coterie.ledger.work import steps, tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask

_AT_ONCE = 8
_FLOWS = {
    "close": "cleanup.close",
    "reclaim": "cleanup.reclaim",
    "retire": "cleanup.retire",
    "delete": "cleanup.delete",
}


def reclaims(tx: Tx, items: Sequence[Row], by: str | None) -> dict[str, int]:
    """Start one task per deployment whose nodes get their lost VMs back; a deployment at work is left to its task."""
    lost: dict[str, list[NewStep]] = defaultdict(list)
    for item in items:
        wish = steps.last_wish(tx, item["node"]) if _is_node(item) else None
        if wish is not None:
            lost[item["deployment"]].append(_reclaim(tx, item, wish))
    started = {}
    for name, found in sorted(lost.items()):
        try:
            deployments.lock(tx, name)
        except Conflict:
            continue
        new = NewTask("reclaim", name, [NewStage("reclaim", found)], requested_by=by, opening=f"{len(found)} VMs")
        started[name] = tasks.create(tx, new)
    return started


def sweep_stages(tx: Tx, items: Sequence[Row], options: Options, started: dict[str, int]) -> list[NewStage]:
    """Each waits for the end of the one before it, not for its success: a sweep goes on after errors."""
    rest = [item for item in items if not (_is_node(item) and item["deployment"] in started)]
    written = [item for item in rest if item["action"] in ("close", "reclaim")]
    parts = [("settle", written)]
    parts += [(kind, [i for i in rest if i["kind"] == kind and i["action"] in ("delete", "retire")]) for kind in ORDER]
    present = clouds.all_clouds(tx)
    stages: list[NewStage] = []
    for name, part in parts:
        if part:
            needs = [(len(stages) - 1, "ended")] if stages else []
            found = [_step(item, options, started, present[item["cloud"]]) for item in part if item["cloud"] in present]
            stages.append(NewStage(name, found, needs, _AT_ONCE))
    return stages


def _is_node(item: Row) -> bool:
    return bool(item["action"] == "reclaim" and item["kind"] == "vm" and item["node"])


def _reclaim(tx: Tx, item: Row, wish: dict[str, Any]) -> NewStep:
    cloud = clouds.get(tx, item["cloud"])
    data = {**wish, "vm": item["intent"], "finding": item["finding"], "reason": item["reason"], "disk_changes": False}
    data.pop("up_by", None)
    where = (item["cloud"], cloud.driver if cloud else None, cloud.conductor_group if cloud else "")
    return NewStep("node.reclaim", "begin", item["ref"] or item["intent"], data, item["node"], *where)


def _step(item: Row, options: Options, started: dict[str, int], cloud: clouds.CloudRow) -> NewStep:
    names = ("finding", "kind", "cid", "created_at", "intent", "deployment", "reason")
    data = {
        **{name: item[name] for name in names},
        "every_s": 1.0 / options.rate,
        "hours": options.hours,
        "reclaims": started,
        "snapshot": item["kind"] == "disk" and options.disks == "snapshot",
    }
    subject = f"{item['kind']} {item['cid'] or item['intent']}"
    where = (cloud.name, cloud.driver, cloud.conductor_group)
    return NewStep(_FLOWS[item["action"]], "begin", subject, data, None, *where)
