"""Deployments: the list, and one with its nodes, groups, disks, manifests and events."""

from __future__ import annotations

import difflib
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from coterie.director.console.page import Page, go

_ROWS = 100
_MOST_LINES = 3000  # of each text: comparing takes the square of their number
_STATES = ("planned", "changing", "up", "failing", "dead", "missing", "stopped", "deleting")


async def index(page: Page) -> Response:
    found = await page.api.get("/v1/deployments", limit=_ROWS, cursor=page.query.get("cursor", ""))
    clouds = (await page.api.get("/v1/clouds", limit=1))["items"]
    return page.show("deployments.html", title="Deployments", live="/live", deployments=found, has_clouds=bool(clouds))


async def show(page: Page) -> Response:
    state, cursor = page.query.get("state", ""), page.query.get("cursor", "")
    name = page.request.path_params["name"]
    nodes = await page.api.get("/v1/nodes", deployment=name, state=state, cursor=cursor, limit=_ROWS)
    tasks = await page.api.get("/v1/tasks", deployment=name, limit=5, without="look")
    return await _show(page, "nodes", nodes=nodes, state=state, states=_STATES, tasks=tasks["items"])


async def groups(page: Page) -> Response:
    name = page.request.path_params["name"]
    found = await page.api.get("/v1/groups", deployment=name, limit=_ROWS, cursor=page.query.get("cursor", ""))
    security = await page.api.get("/v1/objects", deployment=name, kind="security_group", limit=_ROWS)
    return await _show(page, "groups", groups=found, security=security)


async def disks(page: Page) -> Response:
    name = page.request.path_params["name"]
    found = await page.api.get("/v1/disks", deployment=name, limit=_ROWS, cursor=page.query.get("cursor", ""))
    return await _show(page, "disks", disks=found)


async def delete_disk(page: Page) -> Response:
    """A kept disk and its data, after the typed confirmation."""
    intent = page.request.path_params["intent"]
    disk = await page.api.get(f"/v1/disks/{intent}")
    typed = page.field("typed").strip()
    if not typed or typed != (disk["cid"] or intent):
        return page.show("disk.html", title="Delete a kept disk", disk=disk, wrong=bool(typed))
    answer = await page.api.send("DELETE", f"/v1/disks/{intent}")
    return go(f"/tasks/{answer.json['task_id']}")


async def history(page: Page) -> Response:
    name = page.request.path_params["name"]
    listed = await page.api.get(f"/v1/deployments/{name}/manifests", limit=50)
    numbers = [one["id"] for one in listed["items"]]
    new = _chosen(page.query.get("new", ""), numbers, 0)
    old = _chosen(page.query.get("old", ""), numbers, numbers.index(new) + 1 if new in numbers else 1)
    texts = {n: (await page.api.get(f"/v1/deployments/{name}/manifests/{n}"))["body"] for n in {old, new} if n}
    diff = None
    if old is not None and new is not None:
        async with page.context.documents.take(page.caller.identity):
            diff = await run_in_threadpool(_diff, texts[old], texts[new])
    return await _show(
        page,
        "history",
        manifests=listed["items"],
        old=old,
        new=new,
        text="" if new is None else texts[new],
        diff=diff,
        most_lines=_MOST_LINES,
    )


def _chosen(given: str, numbers: list[int], otherwise: int) -> int | None:
    chosen = next((number for number in numbers if str(number) == given), None)
    if chosen is not None:
        return chosen
    return numbers[otherwise] if otherwise < len(numbers) else None


def _diff(old: str, new: str) -> list[tuple[str, str]] | None:
    """Lines with their sign; what is far from a change is left out. None: the texts are too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    lines = difflib.unified_diff(before, after, lineterm="", n=3)
    return [(line[:1], line[1:]) for line in list(lines)[2:]]


async def events(page: Page) -> Response:
    name = page.request.path_params["name"]
    found = await page.api.get("/v1/events", deployment=name, limit=_ROWS, cursor=page.query.get("cursor", ""))
    return await _show(page, "events", events=found)


async def node(page: Page) -> Response:
    which = page.request.path_params["which"]
    found = await page.api.get(f"/v1/nodes/{which}")
    ring = await page.api.find(f"/v1/ring/nodes/{found['uuid']}")
    return page.show("node.html", title=f"Node {found['name']}", live="/live", node=found, ring=ring)


async def repair(page: Page) -> Response:
    answer = await page.api.send("POST", f"/v1/groups/{page.request.path_params['intent']}/repair")
    return go(f"/tasks/{answer.json['task_id']}")


async def look(page: Page) -> Response:
    name = page.request.path_params["name"]
    answer = await page.api.send("POST", "/v1/looks", {"deployment": name})
    return go(f"/tasks/{answer.json['task_id']}")


async def _show(page: Page, tab: str, **values: Any) -> Response:
    name = page.request.path_params["name"]
    found = await page.api.get(f"/v1/deployments/{name}")
    live = "/live" if tab != "history" else ""
    return page.show("deployment.html", title=name, deployment=found, tab=tab, live=live, **values)


ROUTES = (
    ("GET", "/deployments", index),
    ("GET", "/deployments/{name}", show),
    ("GET", "/deployments/{name}/groups", groups),
    ("GET", "/deployments/{name}/disks", disks),
    ("GET", "/deployments/{name}/history", history),
    ("GET", "/deployments/{name}/events", events),
    ("POST", "/deployments/{name}/look", look),
    ("POST", "/disks/{intent}/delete", delete_disk),
    ("POST", "/groups/{intent}/repair", repair),
    ("GET", "/nodes/{which:path}", node),
)
