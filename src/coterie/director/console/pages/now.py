"""The first page: what is unhealthy, what moves, what waits, and what to do first where there is nothing yet."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from coterie.director.console.page import Page

_UNHEALTHY = ("failing", "dead", "missing")
_GROUP_TROUBLE = ("drifted", "missing")
_ROWS = 50
_TASKS = 8


async def now(page: Page) -> Response:
    api = page.api
    info = await api.get("/v1/info")
    running = [one for one in info["unfinished"] if one["kind"] != "look"]
    clouds = (await api.get("/v1/clouds", limit=1000))["items"]
    deployments = (await api.get("/v1/deployments", limit=1000))["items"]
    return page.show(
        "now.html",
        title="Now",
        live="/live",
        nodes=await _find_unhealthy(page),
        groups=[one for state in _GROUP_TROUBLE for one in (await api.get("/v1/groups", state=state))["items"]],
        doubts=(await api.get("/v1/objects", state="unknown", limit=_ROWS))["items"],
        running=[await api.get(f"/v1/tasks/{one['id']}") for one in running[-_TASKS:]][::-1],
        unfinished=[one for one in deployments if one.get("unfinished_task") and not one["task"]],
        waits=await _find_waits(page, clouds),
        recent=(await api.get("/v1/tasks", limit=_TASKS, without="look"))["items"],
        counts=_counts(deployments),
        promises=await _find_broken(page),
        deployments=len(deployments),
        clouds=len(clouds),
        stemcells=len(((await api.find("/v1/stemcells", limit=1)) or {"items": []})["items"]),
    )


async def _find_unhealthy(page: Page) -> list[dict[str, Any]]:
    return [one for state in _UNHEALTHY for one in (await page.api.get("/v1/nodes", state=state, limit=_ROWS))["items"]]


async def _find_broken(page: Page) -> list[dict[str, Any]]:
    found = await page.api.get("/v1/placement/map", most=0)
    return [one for one in found["groups"] if one["holds"] is False]


async def _find_waits(page: Page, clouds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For whom: a conductor that is not there, a key, a cloud that refused, a quota that is full."""
    found = [
        {"what": f"conductor group {one['name'] or '(none)'}", "link": "/ring",
         "why": f"no live conductor serves {one['orphans']} of its nodes",
         "remedy": "start a conductor of that group with the driver: coterie conductor"}
        for one in (await page.api.get("/v1/conductors/groups"))["items"]
        if one["orphans"]
    ]  # fmt: skip
    for cloud in clouds:
        found += [
            {"what": f"cloud {cloud['name']}: {alarm['kind']}", "link": f"/clouds#{cloud['name']}",
             "why": alarm["body"], "remedy": alarm["remedy"]}
            for alarm in cloud["alarms"]
        ]  # fmt: skip
        check = (await page.api.get(f"/v1/clouds/{cloud['name']}"))["facts"].get("check")
        if check is None:
            continue
        wrong = [check["error"]] if check["error"] else []
        wrong += [
            {"what": one["what"], "why": one["detail"], "remedy": one["remedy"]}
            for one in (check["data"] or {}).get("items", ())
            if not one["ok"]
        ]
        found += [
            {"what": f"cloud {cloud['name']}: {one['what']}", "link": f"/clouds#{cloud['name']}",
             "why": one.get("why") or "", "remedy": one.get("remedy") or ""}
            for one in wrong
        ]  # fmt: skip
    return found


def _counts(deployments: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in deployments:
        for state, count in one["nodes"].items():
            found[state] = found.get(state, 0) + count
    return found


ROUTES = (("GET", "/", now),)
