"""Changes of one cloud: each is a new cloud config, with one line of the text changed or added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.errors import Conflict, NotFound
from coterie.ledger import clouds
from coterie.ledger.store import Ledger
from coterie.manifest.amend import added, regrouped
from coterie.ring.members import group_name
from coterie.task.start import set_cloud_config

_FILE = "cloud-config"


def move_cloud(ledger: Ledger, name: str, group: str) -> None:
    """To another conductor group; refused where it has nodes and nobody there would serve them."""
    wanted = group_name(group)
    _change(ledger, lambda text: regrouped(text, name, wanted))


def add_cloud(ledger: Ledger, cloud: Mapping[str, Any]) -> None:
    with ledger.read() as tx:
        if clouds.get(tx, cloud["name"]) is not None:
            raise Conflict(f"there is a cloud {cloud['name']} already", remedy="change it: coterie clouds set FILE")
    group_name(cloud.get("conductor_group", ""))
    _change(ledger, lambda text: added(text, cloud))


def _change(ledger: Ledger, change: Callable[[str], str]) -> None:
    with ledger.read() as tx:
        present = clouds.config(tx)
    if present is None:
        raise NotFound("no cloud config is set", remedy="set one with `coterie clouds set FILE`")
    set_cloud_config(ledger, change(present.body), _FILE, present.id)
