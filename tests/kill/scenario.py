"""The smallest life of a deployment that has every flow: what is asked for in each phase, and in which cloud.

A phase is data; how a Director carries it out is in `director`, what must be true after it in `invariants`.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any, Literal

DEPLOYMENT = "shop"
CLOUD = "lab"
LOST = ("job", 0)  # the node whose VM is deleted before it is revived
OPERATORS_GUARD = "operators"  # a security group that the operator made and our nodes use
SSD_MB = {"fast": 1024, "large": 3072}  # disk types
STEMCELLS = (("debian-12", "1.1"), ("debian-12", "1.2"))
Json = dict[str, Any]
Ask = Literal["nothing", "deploy", "look", "revive", "rest", "restart", "attach", "delete", "dispose"]


@dataclass(frozen=True, slots=True)
class Phase:
    """`manifest`: what is wanted from this phase on. `tasks`: how many tasks it takes to get there."""

    name: str
    manifest: Json
    ask: Ask = "deploy"
    tasks: int = 1

    @property
    def text(self) -> str:
        return json.dumps(self.manifest)

    @property
    def groups(self) -> list[Json]:
        """The instance groups that are there when the phase is over."""
        return list(self.manifest["instance_groups"]) if self.ask not in ("nothing", "delete") else []


def zone() -> Json:
    return {"name": "z1", "racks": 2, "hosts_per_rack": 3, "cpu": 16, "ram_mb": 65536, "disk_mb": 1048576}


def cloud_config(**properties: Any) -> str:
    settings = {"settle_s": 0.05, "layout": {"zones": [zone()]}, **properties}
    return json.dumps(
        {
            "clouds": [{"name": CLOUD, "driver": "sandbox", "properties": settings}],
            "azs": [{"name": "z1", "cloud": CLOUD, "cloud_properties": {"zone": "z1"}}],
            "vm_types": [{"name": "small", "cloud_properties": {"cpu": 1, "ram_mb": 512, "disk_mb": 1024}}],
            "disk_types": [
                {"name": name, "disk_size": size_mb, "cloud_properties": {"type": "ssd"}}
                for name, size_mb in SSD_MB.items()
            ],
            "networks": [_manual(), {"name": "anywhere", "type": "dynamic"}],
        }
    )


def _manual() -> Json:
    subnet = {"range": "127.20.0.0/24", "gateway": "127.20.0.1", "static": ["127.20.0.10 - 127.20.0.19"], "azs": ["z1"]}
    return {"name": "default", "type": "manual", "subnets": [subnet]}


def group(name: str, instances: int, **more: Any) -> Json:
    return {
        "name": name,
        "instances": instances,
        "azs": ["z1"],
        "vm_type": "small",
        "stemcell": "old",
        "networks": [{"name": "default"}],
        **more,
    }


def manifest(*groups: Json, **more: Any) -> Json:
    cells = [
        {"alias": alias, "name": name, "version": version}
        for alias, (name, version) in zip(("old", "new"), STEMCELLS, strict=True)
    ]
    return {"name": DEPLOYMENT, "stemcells": cells, "instance_groups": list(groups), **more}


def phases() -> tuple[Phase, ...]:
    """Begun, created, scaled, upgraded, changed in place, moved to another policy, shrunk and renamed, scaled again
    with the disk that was kept, looked at, revived after the loss of a VM; a node stopped and started, one restarted,
    one given another disk; deleted.

    Of the disks that were kept on the way one is disposed of by its name; the deletion takes the others.
    """
    now = _first()
    found = [Phase("begin", now, "nothing", 0), Phase("create", now)]
    for name, change in _CHANGES.items():
        now = copy.deepcopy(now)
        change(now, {wanted["name"]: wanted for wanted in now["instance_groups"]})
        found.append(Phase(name, now))
    return (
        *found,
        Phase("look", now, "look"),
        Phase("revive", now, "revive", 2),
        Phase("rest", now, "rest", 2),
        Phase("restart", now, "restart"),
        Phase("attach", now, "attach"),
        Phase("dispose", now, "dispose"),
        Phase("delete", now, "delete"),
    )


def _first() -> Json:
    shared = {"policy": "soft-anti-affinity", "server_group": "data"}
    return manifest(
        group(
            "store",
            1,
            persistent_disk=1024,
            networks=[{"name": "default", "static_ips": ["127.20.0.10"]}],
            placement={"policy": "anti-affinity"},
            security_groups=["store", OPERATORS_GUARD],
            tags={"role": "store"},
        ),
        group("web", 1, persistent_disk=1024, placement=dict(shared)),
        group("job", 1, placement=dict(shared)),
        tags={"team": "red"},
        security_groups=[{"name": OPERATORS_GUARD, "adopt": True}],
    )


def _scale(wanted: Json, groups: dict[str, Json]) -> None:
    groups["job"]["instances"] = 2


def _upgrade(wanted: Json, groups: dict[str, Json]) -> None:
    """The disk grows on the way, so that a node that is made anew changes its disk too."""
    groups["store"].update(stemcell="new", persistent_disk=2048)


def _alter(wanted: Json, groups: dict[str, Json]) -> None:
    wanted["tags"] = {"team": "blue"}
    groups["store"].update(persistent_disk=3072, security_groups=["audit", OPERATORS_GUARD])
    del groups["web"]["persistent_disk"]
    groups["web"]["persistent_disk_type"] = "fast"


def _swap(wanted: Json, groups: dict[str, Json]) -> None:
    del groups["web"]["persistent_disk_type"]
    groups["job"]["persistent_disk"] = 512


def _policy(wanted: Json, groups: dict[str, Json]) -> None:
    groups["web"]["persistent_disk"] = 256
    for name in ("web", "job"):
        groups[name]["placement"]["policy"] = "anti-affinity"


def _shrink(wanted: Json, groups: dict[str, Json]) -> None:
    groups["job"]["instances"] = 1
    groups["web"].update(name="site", migrated_from=[{"name": "web"}])


def _return(wanted: Json, groups: dict[str, Json]) -> None:
    groups["job"].update(instances=2, disk_from="job")
    del groups["store"]["persistent_disk"]
    groups["store"]["persistent_disk_type"] = "large"


_CHANGES = {
    "scale": _scale,
    "upgrade": _upgrade,
    "alter": _alter,
    "swap": _swap,
    "policy": _policy,
    "shrink": _shrink,
    "return": _return,
}
