"""Events, filtered by the URL."""

from __future__ import annotations

from starlette.responses import Response

from coterie.director.console.page import Page

_KINDS = ("audit", "node.up", "node.failing", "node.health", "node.deleted", "group.drifted", "look.done")


async def index(page: Page) -> Response:
    wanted = {name: page.query.get(name, "") for name in ("kind", "subject", "deployment", "cursor")}
    looks = page.query.get("looks") == "yes"
    without = "" if looks or wanted["subject"] == "look" else "look"
    found = await page.api.get("/v1/events", **wanted, without=without, limit=100)
    live = "" if wanted["cursor"] else "/live"
    kinds = sorted({*_KINDS, *(one["kind"] for one in found["items"])})
    return page.show("events.html", title="Events", live=live, events=found, wanted=wanted, kinds=kinds, looks=looks)


ROUTES = (("GET", "/events", index),)
