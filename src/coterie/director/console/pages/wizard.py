"""The wizard: a form in steps with the manifest beside it, which may be edited as text; it ends in a plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from coterie.director.console.api import Refusal
from coterie.director.console.mistakes import find_mistakes
from coterie.director.console.page import Page, go
from coterie.director.console.wizard_manifest import Form, GroupForm, read_form, write_manifest
from coterie.errors import InvalidDocument
from coterie.group.policy import PROMISES
from coterie.manifest.load import load_cloud_config
from coterie.manifest.schema import CloudConfig

_POLICIES = tuple(PROMISES)  # of which each has a picture in the template


async def show(page: Page) -> Response:
    return await _show(page, None)


async def change(page: Page) -> Response:
    """The form with one instance group more, or without one."""
    form = read_form(page.fields)
    if page.field("do") == "add":
        form.groups.append(GroupForm(name=f"group-{len(form.groups) + 1}", azs=list(form.groups[-1].azs)))
    elif page.field("do").startswith("remove") and len(form.groups) > 1:
        number = page.field("do").removeprefix("remove")
        form.groups = [one for n, one in enumerate(form.groups) if str(n) != number]
    return await _show(page, form)


async def draft(page: Page) -> Response:
    """The manifest that the form says now, with its mistakes."""
    text = write_manifest(read_form(page.fields))
    return page.show("wizard_text.html", text=text, mistakes=await find_mistakes(page, text))


async def _show(page: Page, form: Form | None) -> Response:
    try:
        text = str((await page.api.get("/v1/cloud-config"))["text"])
    except Refusal as refusal:
        if refusal.status == 404:
            return go("/clouds")
        raise
    config = await run_in_threadpool(_read_config, text)
    stemcells = ((await page.api.find("/v1/stemcells", limit=1000)) or {"items": []})["items"]
    form = form or _first_form(config, stemcells)
    manifest = write_manifest(form)
    return page.show(
        "wizard.html",
        title="New deployment",
        form=asdict(form),
        config=config,
        stemcells=stemcells,
        policies=[{"name": name, "promise": PROMISES[name]} for name in _POLICIES],
        offers=await _offers(page),
        drivers={cloud.name: cloud.driver for cloud in config.clouds} if config else {},
        text=manifest,
        mistakes=await find_mistakes(page, manifest),
    )


def _read_config(text: str) -> CloudConfig | None:
    try:
        return load_cloud_config(text, "cloud-config").value
    except InvalidDocument:
        return None  # set by an older release, and no longer valid


def _first_form(config: CloudConfig | None, stemcells: list[dict[str, Any]]) -> Form:
    """What can be deployed at once, where there is anything to choose."""
    form = Form(name="my-deployment")
    if stemcells:
        form.stemcell = f"{stemcells[-1]['name']} {stemcells[-1]['version']}"
    if config is not None:
        group = form.groups[0]
        group.azs = [az.name for az in config.azs]
        group.vm_type = config.vm_types[0].name if config.vm_types else ""
        group.network = config.networks[0].name if config.networks else ""
    return form


async def _offers(page: Page) -> dict[str, list[str]]:
    """Policy → the clouds that say that they have it."""
    found: dict[str, list[str]] = {name: [] for name in _POLICIES}
    for cloud in (await page.api.get("/v1/clouds", limit=1000))["items"]:
        can = (await page.api.get(f"/v1/clouds/{cloud['name']}"))["capabilities"]
        for policy in (can or {}).get("policies", ()):
            found.setdefault(policy, []).append(cloud["name"])
    return found


ROUTES = (
    ("GET", "/wizard", show),
    ("POST", "/wizard", change),
    ("POST", "/wizard/draft", draft),
)
