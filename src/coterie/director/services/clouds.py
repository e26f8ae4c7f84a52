"""What callers may wish of clouds and their configuration. Credentials are sealed here, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.director.access import caller
from coterie.director.context import Office
from coterie.director.services import sealing
from coterie.errors import InvalidDocument
from coterie.requests import cloud_change, start

_FILE = "cloud-config"


def set_cloud_config(office: Office, text: str, file: str, expect: int | None = None) -> int:
    """`expect`: the id of the config that this one was made from."""
    return start.set_cloud_config(office.ledger, sealing.sealed(office, text, file), file, expect)


def add_cloud(office: Office, cloud: dict[str, Any]) -> None:
    changed = cloud_change.grown(office.ledger, cloud)
    set_cloud_config(office, changed.body, _FILE, changed.id)


def move_cloud(office: Office, name: str, group: str, agree: Callable[[int], None] = lambda config: None) -> None:
    """Refused where the new group could not open the cloud's properties, or `agree` says no to the config in force."""
    changed = cloud_change.moved(office.ledger, name, group)
    agree(changed.id)
    set_cloud_config(office, changed.body, _FILE, changed.id)


def brought(office: Office, text: str | None, file: str) -> str | None:
    """A cloud config that comes with a wish: an admin's, and sealed."""
    if text is None:
        return None
    caller.require("admin", "bring a cloud config")
    try:
        return sealing.sealed(office, text, file)
    except InvalidDocument:
        return text  # it is refused in a moment, together with the mistakes in the manifest
