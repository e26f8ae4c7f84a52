"""The server group of an instance group's nodes. Pure: manifest in, spec out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.manifest.schema import Deployment, InstanceGroup, Placement


@dataclass(frozen=True, slots=True)
class ServerGroupSpec:
    """`name`: as the user named it. `policy` None: the nodes share security groups only.

    `members`: the instance groups that share it, in the manifest's order.
    """

    name: str
    named: bool  # the user gave the name, rather than leaving the instance group's own
    policy: str | None
    adopt: bool
    members: tuple[str, ...]
    options: dict[str, Any]
    recreate_on_policy_change: bool

    @property
    def shared(self) -> bool:
        return len(self.members) > 1


def server_groups(deployment: Deployment, *, auto_anti_affinity: bool = False) -> dict[str, ServerGroupSpec]:
    """Instance group → its server group; those without one are left out.

    `auto_anti_affinity` is the Director's default; the manifest overrides it.
    """
    said = deployment.features.enable_auto_anti_affinity
    auto = auto_anti_affinity if said is None else said
    joined = [group for group in deployment.instance_groups if joins(group, auto)]
    members: dict[str, list[str]] = {}
    for group in joined:
        members.setdefault(logical_name(group), []).append(group.name)
    return {group.name: _spec(group, auto, members[logical_name(group)]) for group in joined}


def joins(group: InstanceGroup, auto: bool) -> bool:
    return group.placement is not None or bool(group.security_groups) or auto


def logical_name(group: InstanceGroup) -> str:
    return (group.placement and group.placement.server_group) or group.name


def _spec(group: InstanceGroup, auto: bool, members: list[str]) -> ServerGroupSpec:
    placement = group.placement or Placement()
    return ServerGroupSpec(
        name=logical_name(group),
        named=placement.server_group is not None,
        policy=placement.policy if group.placement or auto else None,
        adopt=placement.adopt,
        members=tuple(members),
        options=placement.drivers_options(),
        recreate_on_policy_change=placement.recreate_on_policy_change,
    )
