"""The mistakes in a manifest, while it is written: those that `coterie validate` finds, against the config in force."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool

from coterie.cpi.load import driver_names, forms_of
from coterie.director.console.api import Refusal
from coterie.director.console.page import Page
from coterie.errors import InvalidDocument
from coterie.manifest.load import load_both, load_deployment
from coterie.redact import hide

_LARGEST = 256 * 1024  # above, only the plan looks at it
_MOST = 100


async def find_mistakes(page: Page, text: str) -> list[dict[str, Any]]:
    """Each with line, field, what and remedy; of very many the first ones."""
    if len(text) > _LARGEST:
        return []
    try:
        config = str((await page.api.get("/v1/cloud-config"))["text"])
    except Refusal:
        config = ""
    async with page.context.documents.take(page.caller.identity):
        found: list[dict[str, Any]] = await run_in_threadpool(_find, text.replace("\r\n", "\n"), config)
    shown: list[dict[str, Any]] = hide(found[:_MOST])
    if len(found) > _MOST:
        rest = {"what": f"{len(found) - _MOST} more mistakes", "remedy": "mend these first", "line": None, "field": ""}
        shown.append({**rest, "total": len(found)})
    return shown


def _find(text: str, config: str) -> list[dict[str, Any]]:
    try:
        if config:
            pair = (text, "manifest"), (config, "cloud-config")
            load_both(*pair, drivers=driver_names(), forms_of=forms_of, in_force=True)
        else:
            load_deployment(text, "manifest")
    except InvalidDocument as error:
        return [one for one in error.details["mistakes"] if one.get("file") in (None, "manifest")]
    return []
