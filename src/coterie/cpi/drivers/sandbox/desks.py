"""For each plain kind of object, the datacenter's calls and how its value reads in the contract's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CloudObject, Kind
from coterie.cpi.drivers.sandbox.guards import users
from coterie.cpi.drivers.sandbox.marking import read_mark
from coterie.sandbox import disks, images, networks, security_groups, snapshots, vm_shape, vms
from coterie.sandbox.pages import Page
from coterie.sandbox.records import Record


@dataclass(frozen=True, slots=True)
class Desk:
    """`facts`: what the contract wants to know beyond what all objects share."""

    listing: Callable[..., Page[Any]]
    get: Callable[..., Any]
    delete: Callable[..., None]
    facts: Callable[[Any], dict[str, Any]]


def view(kind: Kind, found: Record, cid: str | None = None, **facts: Any) -> CloudObject:
    return CloudObject(
        kind=kind,
        cid=cid or found.id,
        name=found.name,
        created_at=found.created_at,
        etag=str(found.revision),
        mark=read_mark(found.tags),
        tags=dict(found.tags),
        **facts,
    )


DESKS: dict[str, Desk] = {
    "vm": Desk(
        vm_shape.list_vms,
        vm_shape.get_vm,
        vms.delete_vm,
        lambda vm: {"in_use_by": (), "az": vm.zone, "state": vm.state, "host": vm.host},
    ),
    "disk": Desk(
        disks.list_disks,
        disks.get_disk,
        disks.delete_disk,
        lambda disk: {
            "in_use_by": (disk.vm,) if disk.vm else (),
            "az": disk.zone,
            "state": "attached" if disk.vm else "detached",
        },
    ),
    "snapshot": Desk(
        snapshots.list_snapshots, snapshots.get_snapshot, snapshots.delete_snapshot, lambda snapshot: {"in_use_by": ()}
    ),
    "image": Desk(images.list_images, images.get_image, images.delete_image, lambda image: {"in_use_by": image.vms}),
    "network": Desk(
        networks.list_networks, networks.get_network, networks.delete_network, lambda net: {"in_use_by": net.vms}
    ),
    "security_group": Desk(
        security_groups.list_security_groups,
        security_groups.get_security_group,
        security_groups.delete_security_group,
        lambda group: {"in_use_by": users(group)},
    ),
}
