"""Tasks: the list, and one with its stages, its running steps, what they wait for, and its time line."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from coterie.director.console.drawing import time_line
from coterie.director.console.page import Page, go

_STEPS = 200
_FILTERS = ("deployment", "state", "kind", "cursor")


async def index(page: Page) -> Response:
    wanted = {name: page.query.get(name, "") for name in _FILTERS}
    looks = page.query.get("looks") == "yes"
    found = await page.api.get("/v1/tasks", **wanted, without="" if looks or wanted["kind"] else "look", limit=50)
    return page.show("tasks.html", title="Tasks", live="/live", tasks=found, wanted=wanted, looks=looks)


async def show(page: Page) -> Response:
    number = page.request.path_params["task"]
    task = await page.api.get(f"/v1/tasks/{number}")
    steps = await page.api.get(f"/v1/tasks/{number}/steps", limit=_STEPS, cursor=page.query.get("steps", ""))
    running = await page.api.get(f"/v1/tasks/{number}/steps", state="running", limit=_STEPS)
    failed = await page.api.get(f"/v1/tasks/{number}/steps", state="failed", limit=_STEPS)
    events = await page.api.get(f"/v1/tasks/{number}/events", limit=_STEPS, cursor=page.query.get("events", ""))
    first, last = min(1, len(steps["items"])), len(steps["items"])
    return page.show(
        "task.html",
        title=f"Task {number}",
        live="" if task["ended_at"] else f"/live/tasks/{number}",
        task=task,
        steps=steps,
        running=running["items"],
        failures=_failures(task, failed["items"]),
        events=events,
        line=time_line.draw(steps["items"], task),
        shown=f"steps {first} to {last} of this page" if steps["next"] or page.query.get("steps") else "",
    )


def _failures(task: dict[str, Any], failed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the report; while the task runs there is none yet."""
    of_report = (task["report"] or {}).get("failures") or []
    return of_report or [{"subject": one["subject"], "error": one["error"] or {}} for one in failed]


async def cancel(page: Page) -> Response:
    number = page.request.path_params["task"]
    await page.api.send("POST", f"/v1/tasks/{number}/cancel")
    return go(f"/tasks/{number}")


ROUTES = (
    ("GET", "/tasks", index),
    ("GET", "/tasks/{task:int}", show),
    ("POST", "/tasks/{task:int}/cancel", cancel),
)
