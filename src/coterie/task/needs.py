"""What a manifest asks of one cloud: the question that the driver answers before anything is planned."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.manifest import GroupWish
from coterie.plan.limits import zone


def needs_of(wishes: Sequence[GroupWish], cloud: str) -> dict[str, object]:
    """What the manifest asks of one cloud, as `Needs` on the wire."""
    own = [wish for wish in wishes if any(az.cloud == cloud for az in wish.azs)]
    kinds = {"vm", "image"} if own else set()
    policies = {wish.server_group.policy for wish in own if wish.server_group and wish.server_group.policy}
    if any(wish.disk for wish in own):
        kinds.add("disk")
    if any(wish.server_group for wish in own):
        kinds.add("server_group")
    if any(wish.security_groups for wish in own):
        kinds.add("security_group")
    zones = {zone(az) for wish in own for az in wish.azs if az.cloud == cloud}
    asked = {"kinds": sorted(kinds), "policies": sorted(policies), "azs": sorted(zones)}
    return {**asked, "groups": _group_needs(own, cloud)}


def _group_needs(wishes: Sequence[GroupWish], cloud: str) -> list[dict[str, object]]:
    """The server groups that the driver will be asked for, with the zones that their nodes go to."""
    found: dict[str, dict[str, object]] = {}
    zones: dict[str, set[str]] = {}
    for wish in wishes:
        group = wish.server_group
        if group is None:
            continue
        zones.setdefault(group.name, set()).update(zone(az) for az in wish.azs if az.cloud == cloud)
        options = {
            **group.options,
            **({"name": group.name} if group.named else {}),
            **({"adopt": True} if group.adopt else {}),
        }
        found[group.name] = {"name": group.name, "policy": group.policy, "options": options}
    return [{**one, "azs": sorted(zones[name])} for name, one in found.items()]
