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
    found = await page.api.get("/v1/placement/map", deployment=deployment)
    drawing = await run_in_threadpool(placement_map.draw, found, rack)
    unplaced = [one for one in found["nodes"] if not one["host"]]
    return page.show(
        "placement.html",
        title="Placement map",
        live="/live",
        drawing=drawing,
        groups=[{**one, "letter": letter(n), "colour": n % 8} for n, one in enumerate(found["groups"][:_GROUPS])],
        more=max(0, len(found["groups"]) - _GROUPS),
        nodes=len(found["nodes"]),
        hosts=len(found["hosts"]),
        unplaced=len(unplaced),
        racks=_racks(found),
        deployment=deployment,
        rack=rack,
        deployments=(await page.api.get("/v1/deployments", limit=1000))["items"],
        audit=None,
    )


def _racks(found: dict[str, Any]) -> list[dict[str, Any]]:
    """As a table: the picture in words."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for host in found["hosts"]:
        counts.setdefault((host["cloud"], host["az"] or "–", host["rack"] or "no rack"), [0, 0])[0] += 1
    for node in found["nodes"]:
        key = (node["cloud"], node["az"] or "–", node["rack"] or ("no rack" if node["host"] else "host unknown"))
        counts.setdefault(key, [0, 0])[1] += 1
    return [
        {"cloud": cloud, "az": az, "rack": rack, "hosts": hosts, "nodes": nodes}
        for (cloud, az, rack), (hosts, nodes) in sorted(counts.items())
    ]


async def download(page: Page) -> Response:
    found = await page.api.get("/v1/placement/map", deployment=page.query.get("deployment", ""))
    drawing = await run_in_threadpool(placement_map.draw, found, page.query.get("rack", ""), False)
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
