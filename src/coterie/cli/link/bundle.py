"""What a Director tells a doctor about itself and its fleet; its API hides secrets, and reads are all that is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.cli.link.api import Api
from coterie.errors import CoterieError

Json = dict[str, Any]
_FAILED = 5
_RUNNING = 20


def bundle(api: Api) -> Json:
    """One part per question; a question that fails is answered with its error, and the rest is there all the same."""
    asked: dict[str, Callable[[], Any]] = {
        "info": lambda: api.get("/v1/info"),
        "versions": lambda: _versions(api),
        "config": lambda: api.get("/v1/config"),
        "conductors": lambda: api.list("/v1/conductors")["items"],
        "groups": lambda: api.get("/v1/conductors/groups")["items"],
        "clouds": lambda: api.list("/v1/clouds")["items"],
        "running": lambda: _tasks(api, "running", _RUNNING),
        "failed": lambda: _tasks(api, "failed", _FAILED),
        "metrics": lambda: api.get("/metrics").splitlines(),
    }
    return {name: _answered(ask) for name, ask in asked.items()}


def unserved(found: Json) -> list[str]:
    """Groups with nodes that no live conductor serves, in words."""
    groups = found["groups"] if isinstance(found["groups"], list) else []
    return [f"{one['name'] or '(none)'}: {one['orphans']} nodes" for one in groups if one["orphans"]]


def waiting(found: Json) -> list[str]:
    """Why running tasks wait, in words."""
    tasks = found["running"] if isinstance(found["running"], list) else []
    return [f"task {task['id']}: {why}" for task in tasks for why in task["waiting"]]


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except CoterieError as error:
        return {"error": error.facts()}


def _versions(api: Api) -> Json:
    told = {name.lower(): value for name, value in api.send("GET", "/livez").headers.items()}
    names = ("coterie-version", "coterie-api-version", "coterie-api-minimum-version", "coterie-api-maximum-version")
    return {name: told.get(name) for name in names}


def _tasks(api: Api, state: str, limit: int) -> list[Any]:
    found = api.list("/v1/tasks", {"state": state, "without": "look"}, limit)["items"]
    return [api.get(f"/v1/tasks/{task['id']}") for task in found]
