"""Tokens, the teams of deployments, and who did what."""

from __future__ import annotations

from starlette.responses import Response

from coterie.director.console.page import Page, go

_RECORDS = 50


async def index(page: Page) -> Response:
    return await _show(page, None)


async def create(page: Page) -> Response:
    """The text of the token is in this answer only."""
    teams = page.field("teams").strip()
    body = {
        "name": page.field("name"),
        "role": page.field("role", "viewer"),
        "teams": teams.replace(",", " ").split() if teams else None,  # [] is refused by the API
        "days": _number(page.field("days", "90")),
    }
    made = (await page.api.send("POST", "/v1/tokens", body)).json
    return await _show(page, made)


def _number(text: str) -> int | str:
    """What is no number is refused by the API, with its words."""
    return int(text) if text.isascii() and text.isdigit() else text


async def revoke(page: Page) -> Response:
    await page.api.send("DELETE", f"/v1/tokens/{page.request.path_params['token']}")
    return go("/access")


async def set_team(page: Page) -> Response:
    name = page.request.path_params["name"]
    await page.api.send("PATCH", f"/v1/deployments/{name}", {"team": page.field("team").strip() or None})
    return go("/access#teams")


async def _show(page: Page, made: dict[str, object] | None) -> Response:
    tokens = await page.api.find("/v1/tokens", limit=200, cursor=page.query.get("tokens", ""))
    records = await page.api.get("/v1/events", kind="audit", limit=_RECORDS, cursor=page.query.get("records", ""))
    deployments = await page.api.get("/v1/deployments", limit=1000)
    return page.show(
        "access.html", title="Access", tokens=tokens, made=made, records=records, deployments=deployments["items"]
    )


ROUTES = (
    ("GET", "/access", index),
    ("POST", "/access/tokens", create),
    ("POST", "/access/tokens/{token}/revoke", revoke),
    ("POST", "/access/teams/{name}", set_team),
)
