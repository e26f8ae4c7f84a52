"""Every change of a deployment: a form, its plan, and once that is confirmed the task."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.responses import Response

from coterie.director.console.api import Refusal
from coterie.director.console.mistakes import find_mistakes
from coterie.director.console.page import Page, go
from coterie.director.http.problem import Failure

_KEPT = ("kind", "deployment", "manifest", "action", "team", "delete_disks", "recreate", "reuse_disks")
_FLAGS = ("delete_disks", "recreate", "reuse_disks")
_FILE = "manifest"


async def edit(page: Page) -> Response:
    """The manifest in force, as a text to change."""
    name = page.request.path_params["name"]
    answer = await page.api.send("GET", f"/v1/deployments/{name}/manifest")
    return _editor(page, name, answer.body.decode(), [])


def _editor(page: Page, name: str, text: str, mistakes: list[dict[str, Any]], status: int = 200) -> Response:
    return page.show(
        "edit.html",
        status,
        title=f"Manifest of {name}" if name else "Manifest",
        name=name,
        text=text,
        mistakes=mistakes,
    )


async def check(page: Page) -> Response:
    """The mistakes in a text, while it is typed."""
    text = page.field("manifest")
    return page.show("mistakes.html", mistakes=await find_mistakes(page, text), text=text)


async def plan(page: Page) -> Response:
    try:
        made = (await page.api.send("POST", "/v1/plans", _plan_body(page), query={"text": "detail"})).json
    except Refusal as refusal:
        if refusal.problem.get("mistakes") and page.field("kind") == "deploy":
            return _editor(
                page, page.field("deployment"), page.field("manifest"), refusal.problem["mistakes"], refusal.status
            )
        raise
    return page.show(
        "plan.html",
        title=f"Plan for {made['deployment']}",
        plan=made,
        destructive=[one for one in made["changes"] if one["destructive"]],
        others=[one for one in made["changes"] if not one["destructive"]],
        sent=[(name, value) for name in _KEPT for value in [page.field(name)] if value]
        + [("nodes", one) for one in page.fields("nodes")],
        key=secrets.token_urlsafe(16),
    )


async def apply(page: Page) -> Response:
    """Carries out the plan that was shown; another one by now is refused by the API."""
    name = page.field("name")
    if page.field("destructive") and page.field("typed").strip() != name:
        raise Failure(
            422, "not_confirmed", "the name was not typed as it is", f"go back, and type {name} to confirm the plan"
        )
    headers = {"idempotency-key": page.field("key")} if page.field("key") else {}
    method, path, body, query = _request(page, name)
    answer = await page.api.send(method, path, body, query=query, headers=headers)
    return go(f"/tasks/{answer.json['task_id']}")


def _request(page: Page, name: str) -> tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]:
    body, plan_id = _plan_body(page), page.field("plan")
    path = f"/v1/deployments/{name}"
    if page.field("kind") == "delete":
        return "DELETE", path, None, {"delete_disks": page.field("delete_disks"), "plan": plan_id}
    if page.field("kind") == "action":
        return "POST", f"{path}/actions", {"action": body["action"], "nodes": body["nodes"], "plan": plan_id}, None
    wanted = {one: body[one] for one in ("manifest", "manifest_file", "nodes", "recreate", "reuse_disks")}
    return "PUT", path, {**wanted, "plan": plan_id, "team": page.field("team") or None}, None


def _plan_body(page: Page) -> dict[str, Any]:
    kind, flags = page.field("kind"), {name: page.field(name) == "true" for name in _FLAGS}
    if kind == "delete":
        return {"deployment": page.field("deployment"), "delete": True, "delete_disks": flags["delete_disks"]}
    if kind == "action":
        nodes = page.fields("nodes")
        if not nodes:
            raise Failure(422, "invalid_request", "no node was chosen", "go back, and tick the nodes to work on")
        return {"deployment": page.field("deployment"), "action": page.field("action"), "nodes": nodes}
    return {
        "manifest": page.field("manifest").replace("\r\n", "\n"),
        "manifest_file": _FILE,
        "nodes": page.fields("nodes"),
        "recreate": flags["recreate"],
        "reuse_disks": flags["reuse_disks"],
    }


async def retry(page: Page) -> Response:
    """Plans the manifest in force again: what failed or was cancelled goes on, and drift is mended."""
    name = page.request.path_params["name"]
    answer = await page.api.send("GET", f"/v1/deployments/{name}/manifest")
    fields = [("kind", "deploy"), ("deployment", name), ("manifest", answer.body.decode())]
    page.form = type(page.form)([*fields, *((one, page.field(one)) for one in _FLAGS if page.field(one))])
    return await plan(page)


ROUTES = (
    ("GET", "/deployments/{name}/edit", edit),
    ("POST", "/deployments/{name}/retry", retry),
    ("POST", "/check", check),
    ("POST", "/plan", plan),
    ("POST", "/apply", apply),
)
