"""What a phase's manifest means, node by node and group by group, worked out independently of the planner."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kill.scenario import OPERATORS_GUARD, SSD_MB, STEMCELLS, Json, Phase

_REFS = dict(zip(("old", "new"), (f"{name}/{version}" for name, version in STEMCELLS), strict=True))


@dataclass(frozen=True, slots=True)
class WantedNode:
    name: str
    group: str | None  # its server group
    stemcell: str
    disk_mb: int | None
    disk_type: str
    ip: str | None
    tags: dict[str, str]
    guards: set[str]  # its security groups


def wanted_nodes(phase: Phase) -> dict[str, WantedNode]:
    found = [_node(phase, group, index) for group in phase.groups for index in range(group["instances"])]
    return {node.name: node for node in found}


def wanted_groups(phase: Phase) -> dict[str, str]:
    """Name → policy."""
    placed = [group for group in phase.groups if "placement" in group]
    return {_server_group(group) or "": group["placement"]["policy"] for group in placed}


def wanted_guards(phase: Phase) -> set[str]:
    """Security groups that we have to make ourselves."""
    return {name for group in phase.groups for name in group.get("security_groups", ())} - {OPERATORS_GUARD}


def _node(phase: Phase, group: Json, index: int) -> WantedNode:
    static = group["networks"][0].get("static_ips", ())
    kind = group.get("persistent_disk_type")
    return WantedNode(
        name=f"{group['name']}/{index}",
        group=_server_group(group),
        stemcell=_REFS[group["stemcell"]],
        disk_mb=SSD_MB[kind] if kind else group.get("persistent_disk"),
        disk_type="ssd" if kind else "standard",
        ip=static[index] if static else None,
        tags={**phase.manifest.get("tags", {}), **group.get("tags", {})},
        guards=set(group.get("security_groups", ())),
    )


def _server_group(group: Json) -> str | None:
    if "placement" not in group:
        return None
    return str(group["placement"].get("server_group") or group["name"])
