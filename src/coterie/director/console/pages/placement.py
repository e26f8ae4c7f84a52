"""The placement map: where every node is, which promise holds, and what the loss of a host or rack would take down."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from coterie.director.console.drawing import placement_map
from coterie.director.console.drawing.svg import letter
from coterie.director.console.page import Page

_GROUPS = 200


async def show(page: Page) -> Response:
    deployment, rack = page.query.get("deployment", ""), page.query.get("rack", "")
    found = await _read(page)
    drawing = await run_in_threadpool(placement_map.draw, found)
    return page.show(
        "placement.html",
        title="Placement map",
        live="/live",
        drawing=drawing,
        marks=placement_map.STATE_MARKS,
        groups=[{**one, "letter": letter(n), "colour": n % 8} for n, one in enumerate(found["groups"][:_GROUPS])],
        more=max(0, len(found["groups"]) - _GROUPS),
        nodes=sum(one["nodes"] for one in found["racks"]),
        hosts=sum(one["hosts"] for one in found["racks"]),
        unhealthy=sum(one["unhealthy"] for one in found["racks"]),
        unplaced=sum(one["nodes"] for one in found["racks"] if one["rack"] == "unknown"),
        racks=found["racks"],
        deployment=deployment,
        rack=rack,
        deployments=(await page.api.get("/v1/deployments", limit=1000))["items"],
        audit=None,
    )


async def _read(page: Page) -> dict[str, Any]:
    """One rack in detail; of all of them, hosts and nodes only where there are few."""
    wanted = {"deployment": page.query.get("deployment", ""), "rack": page.query.get("rack", "")}
    most = None if wanted["rack"] else placement_map.DETAIL_HOSTS
    found: dict[str, Any] = await page.api.get("/v1/placement/map", **wanted, most=most)
    return found


async def download(page: Page) -> Response:
    drawing = await run_in_threadpool(placement_map.draw, await _read(page), False)
    headers = {
        "Content-Disposition": 'attachment; filename="placement.svg"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }
    return Response(drawing.file(), media_type="image/svg+xml", headers=headers)


async def audit(page: Page) -> Response:
    """Asks the clouds now."""
    deployment = page.query.get("deployment", "")
    found = await page.api.get("/v1/placement", deployment=deployment)
    return page.show("audit.html", title="Placement audit", groups=found["groups"], deployment=deployment)


ROUTES = (
    ("GET", "/placement", show),
    ("GET", "/placement.svg", download),
    ("GET", "/placement/audit", audit),
)
