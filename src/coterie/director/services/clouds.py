"""Requests that change clouds and the cloud config. Credentials are sealed here, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.director.access import caller
from coterie.director.context import AppContext
from coterie.director.services import sealing
from coterie.errors import InvalidDocument
from coterie.requests import cloud_change, start

_FILE = "cloud-config"


def set_cloud_config(context: AppContext, text: str, file: str, expect: int | None = None) -> int:
    """`expect`: the id of the config that this one was made from."""
    return start.set_cloud_config(context.ledger, sealing.seal_text(context, text, file), file, expect)


def add_cloud(context: AppContext, cloud: dict[str, Any]) -> None:
    changed = cloud_change.add_cloud_to_config(context.ledger, cloud)
    set_cloud_config(context, changed.body, _FILE, changed.id)


def move_cloud(context: AppContext, name: str, group: str, agree: Callable[[int], None] = lambda config: None) -> None:
    """Refused if the new group cannot open the cloud's properties, or `agree` raises for the present config."""
    changed = cloud_change.move_cloud(context.ledger, name, group)
    agree(changed.id)
    set_cloud_config(context, changed.body, _FILE, changed.id)


def seal_given_config(context: AppContext, text: str | None, file: str) -> str | None:
    """Seal a cloud config that comes with a deploy or a plan; only an admin may send one."""
    if text is None:
        return None
    caller.require("admin", "bring a cloud config")
    try:
        return sealing.seal_text(context, text, file)
    except InvalidDocument:
        return text  # planning refuses it, together with the mistakes in the manifest
