"""Names that a manifest takes from the cloud config must be there."""

from __future__ import annotations

from collections.abc import Collection

from coterie.manifest.rules.pair import Pair
from coterie.manifest.tree import Loc


def check_references(pair: Pair) -> None:
    config = pair.config.value
    vm_types = {entry.name: None for entry in config.vm_types}
    disk_types = {entry.name: None for entry in config.disk_types}
    for loc, group in pair.groups():
        for n, az in enumerate(group.azs):
            _check(pair, (*loc, "azs", n), az, "az", "azs", pair.azs)
        _check(pair, (*loc, "vm_type"), group.vm_type, "vm type", "vm_types", vm_types)
        if group.persistent_disk_type:
            place = (*loc, "persistent_disk_type")
            _check(pair, place, group.persistent_disk_type, "disk type", "disk_types", disk_types)
        for n, network in enumerate(group.networks):
            _check(pair, (*loc, "networks", n, "name"), network.name, "network", "networks", pair.networks)


def _check(pair: Pair, loc: Loc, name: str, noun: str, section: str, known: Collection[str]) -> None:
    if name not in known and pair.config.names_all(section):
        remedy = pair.deployment.hints.remedy(name, known, f"{noun}s of {pair.config.file}")
        pair.deployment.add(loc, f"no {noun} is named '{name}'", remedy)
