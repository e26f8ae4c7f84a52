"""Clouds with their checks, quotas and capabilities; the cloud config; stemcells and their upload."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from coterie.director.console.api import Refusal
from coterie.director.console.page import Page, go


async def index(page: Page) -> Response:
    listed = (await page.api.get("/v1/clouds", limit=1000))["items"]
    clouds = [await page.api.get(f"/v1/clouds/{one['name']}") for one in listed]
    stemcells = await page.api.find("/v1/stemcells", limit=100, cursor=page.query.get("stemcells", ""))
    return page.show(
        "clouds.html",
        title="Clouds",
        live="/live",
        clouds=[{**one, "items": _items(one), "quotas": _quotas(one), "sealed": _sealed(one)} for one in clouds],
        stemcells=stemcells,
    )


def _items(cloud: dict[str, Any]) -> list[dict[str, Any]]:
    fact = cloud["facts"].get("check")
    if fact is None:
        return []
    if fact["error"]:
        error = fact["error"]
        return [{"what": "answer", "ok": False, "detail": error.get("what", ""), "remedy": error.get("remedy", "")}]
    return list((fact["data"] or {}).get("items", ()))


def _quotas(cloud: dict[str, Any]) -> list[dict[str, Any]]:
    """Name, used and limit, with the share of the bar; a limit of none has no bar."""
    found = [one["facts"].get("quotas") for one in _items(cloud) if one["what"] == "quotas" and one.get("facts")]
    return [
        {"name": name, "used": one["used"], "limit": one["limit"],
         "share": min(1.0, (one["used"] or 0) / one["limit"]) if one["limit"] else None}
        for quotas in found
        for name, one in sorted((quotas or {}).items())
    ]  # fmt: skip


def _sealed(cloud: dict[str, Any]) -> list[str]:
    """To which groups' keys the properties are sealed; their values are not shown anywhere."""
    sealed = cloud["properties"].get("sealed")
    texts = sealed if isinstance(sealed, list) else [sealed]
    if not all(isinstance(text, str) for text in texts):
        return []
    parts = [[*str(text).split(":"), "", "", ""] for text in texts]
    return [f"key {key} of group {group or '(none)'}" for _, group, key, *_ in parts]


async def check(page: Page) -> Response:
    name = page.request.path_params["name"]
    await page.api.send("POST", f"/v1/clouds/{name}/check")
    return go(f"/clouds#{name}")


async def accept(page: Page) -> Response:
    name = page.request.path_params["name"]
    if page.field("typed").strip() != name:
        return page.show("accept.html", title=f"Accept the state of {name}", name=name, wrong=bool(page.field("typed")))
    await page.api.send("POST", f"/v1/clouds/{name}/accept")
    return go(f"/clouds#{name}")


async def config(page: Page) -> Response:
    try:
        answer = await page.api.send("GET", "/v1/cloud-config")
        text, tag = answer.json["text"], answer.headers.get("etag", "")
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        text, tag = "", ""
    return _config(page, text, tag, [])


async def set_config(page: Page) -> Response:
    text, tag = page.field("text").replace("\r\n", "\n"), page.field("tag")
    headers = {"if-match": tag} if tag else {}
    try:
        await page.api.send("PUT", "/v1/cloud-config", {"text": text, "file": "cloud-config"}, headers=headers)
    except Refusal as refusal:
        if refusal.problem.get("mistakes"):
            return _config(page, text, tag, refusal.problem["mistakes"], refusal.status)
        raise
    return go("/clouds")


def _config(page: Page, text: str, tag: str, mistakes: list[dict[str, Any]], status: int = 200) -> Response:
    return page.show("cloud_config.html", status, title="Cloud config", text=text, tag=tag, mistakes=mistakes)


async def upload(page: Page) -> Response:
    """The body is passed on as it comes: a stemcell may be larger than the memory."""
    kind = page.request.headers.get("content-type", "application/octet-stream")
    try:
        await page.api.send("POST", "/v1/stemcells", headers={"content-type": kind}, receive=page.request.receive)
    except Refusal as refusal:
        return page.show("problem_part.html", refusal.status, problem=refusal.problem)
    return Response(status_code=201)


async def delete_stemcell(page: Page) -> Response:
    given = page.request.path_params
    await page.api.send("DELETE", f"/v1/stemcells/{given['name']}/{given['version']}")
    return go("/clouds#stemcells")


ROUTES = (
    ("GET", "/clouds", index),
    ("GET", "/clouds/config", config),
    ("POST", "/clouds/config", set_config),
    ("POST", "/clouds/stemcells", upload),
    ("POST", "/clouds/stemcells/{name}/{version}/delete", delete_stemcell),
    ("POST", "/clouds/{name}/check", check),
    ("POST", "/clouds/{name}/accept", accept),
)
