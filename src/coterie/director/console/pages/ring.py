"""Rings and conductors, and what would move if conductors left or joined."""

from __future__ import annotations

from starlette.responses import Response

from coterie.director.console.page import Page


async def show(page: Page) -> Response:
    query = page.request.query_params
    without, added = query.getlist("without"), [one.strip() for one in query.getlist("with") if one.strip()]
    parts = [query.get(one, "").strip() for one in ("name", "group", "drivers")]
    if parts[0]:
        added.append(":".join(parts))
    moved = None
    if without or added:
        moved = await page.api.get("/v1/ring/what-if", without=without, **{"with": added})
    return page.show(
        "ring.html",
        title="Ring and conductors",
        live="" if moved else "/live?every=5",
        rings=await page.api.get("/v1/ring"),
        groups=(await page.api.get("/v1/conductors/groups"))["items"],
        conductors=(await page.api.get("/v1/conductors", limit=1000))["items"],
        without=without,
        added=added,
        moved=moved,
    )


ROUTES = (("GET", "/ring", show),)
