"""Changes of one cloud: each is a new cloud config, with one line of the text changed or added. Stores nothing itself:
a config has one way into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.errors import Conflict, NotFound
from coterie.ledger.rows import clouds
from coterie.ledger.rows.clouds import ConfigRow
from coterie.ledger.store import Ledger
from coterie.manifest.amend import add_cloud, set_conductor_group
from coterie.ring.members import group_name


def move_cloud(ledger: Ledger, name: str, group: str) -> ConfigRow:
    """The text with another conductor group for this cloud, and the id of the config that it was made from.

    One of its other groups changes places with the present one: no credentials are needed, as it can open them.
    """
    wanted = group_name(group)
    present = _present(ledger)
    return ConfigRow(present.id, set_conductor_group(present.body, name, wanted))


def add_cloud_to_config(ledger: Ledger, cloud: Mapping[str, Any]) -> ConfigRow:
    """The same with one more cloud."""
    for group in (cloud.get("conductor_group", ""), *cloud.get("other_conductor_groups", ())):
        group_name(group)
    with ledger.read() as tx:
        if clouds.get(tx, cloud["name"]) is not None:
            raise Conflict(f"there is a cloud {cloud['name']} already", remedy="change it: coterie clouds set FILE")
    present = _present(ledger)
    return ConfigRow(present.id, add_cloud(present.body, cloud))


def _present(ledger: Ledger) -> ConfigRow:
    with ledger.read() as tx:
        found = clouds.config(tx)
    if found is None:
        raise NotFound("no cloud config is set", remedy="set one with `coterie clouds set FILE`")
    return found
