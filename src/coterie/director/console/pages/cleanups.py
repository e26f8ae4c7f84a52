"""Cleanup: surveys, the evidence for and against each finding, the plan, its approval, progress, and undo."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from coterie.director.console.page import Page, go
from coterie.director.http.problem import Failure

_OPTIONS = ("kinds", "clouds", "azs", "names")
_NUMBERS = ("grace_s", "older_than_s", "cap", "cap_percent", "rate")
_VERDICTS = ("orphan", "young", "keep", "drift", "missing")


async def index(page: Page) -> Response:
    runs = await page.api.get("/v1/cleanups", limit=50, cursor=page.query.get("cursor", ""))
    marks = await page.api.get("/v1/cleanups/marks", limit=1000, cursor=page.query.get("marks", ""))
    clouds = (await page.api.get("/v1/clouds", limit=1000))["items"]
    kept = await page.api.get("/v1/disks", state="kept", limit=200, cursor=page.query.get("kept", ""))
    pinned = {(one["cloud"], one["cid"]) for one in marks["items"] if one["pinned"]}
    disks = [{**one, "pinned": (one["cloud"], one["cid"]) in pinned} for one in kept["items"]]
    return page.show(
        "cleanups.html", title="Cleanup", live="/live", runs=runs, marks=marks, clouds=clouds, kept=kept, disks=disks
    )


async def begin(page: Page) -> Response:
    body: dict[str, Any] = {}
    for name in _OPTIONS:
        words = page.field(name).replace(",", " ").split() or page.fields(f"{name}[]")
        if words:
            body[name] = words
    for name in _NUMBERS:
        if page.field(name).strip():
            body[name] = _number(page.field(name).strip())
    made = (await page.api.send("POST", "/v1/cleanups", body)).json
    return go(f"/cleanup/{made['cleanup']}")


def _number(text: str) -> float | str:
    """What is no number is refused by the API, with its words."""
    try:
        return float(text)
    except ValueError:
        return text


async def show(page: Page) -> Response:
    number = page.request.path_params["cleanup"]
    run = await page.api.get(f"/v1/cleanups/{number}")
    wanted = {name: page.query.get(name, "") for name in ("verdict", "kind", "cloud", "outcome", "cursor")}
    findings = await page.api.get(f"/v1/cleanups/{number}/findings", **wanted, limit=100)
    number_of_task = run["sweep_task"] or run["survey_task"]
    task = await page.api.find(f"/v1/tasks/{number_of_task}") if number_of_task else None
    return page.show(
        "cleanup.html",
        title=f"Cleanup {number}",
        live="/live",
        run=run,
        findings=findings,
        wanted=wanted,
        task=task,
        verdicts=_VERDICTS,
    )


async def apply(page: Page) -> Response:
    number = page.request.path_params["cleanup"]
    if page.field("typed").strip() != page.field("count"):
        raise Failure(422, "not_confirmed", "type the number of objects to confirm", "go back, and type it")
    await page.api.send("POST", f"/v1/cleanups/{number}/apply", {"plan": page.field("plan")})
    return go(f"/cleanup/{number}")


async def undo(page: Page) -> Response:
    names = page.fields("names")
    if not names:  # the API takes that as all
        raise Failure(422, "invalid_request", "no disk was chosen", "go back, and tick the disks to save")
    await page.api.send("POST", "/v1/cleanups/undo", {"names": names})
    return go("/cleanup#kept")


ROUTES = (
    ("GET", "/cleanup", index),
    ("POST", "/cleanup", begin),
    ("GET", "/cleanup/{cleanup:int}", show),
    ("POST", "/cleanup/{cleanup:int}/apply", apply),
    ("POST", "/cleanup/undo", undo),
)
