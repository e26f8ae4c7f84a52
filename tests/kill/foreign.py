"""What others have in the same cloud: planted before anything of ours, and never to be touched by us."""

from __future__ import annotations

from typing import Any

from coterie.cpi.kit.marking import DIRECTOR, INTENT
from coterie.sandbox import disks, images, security_groups, server_groups, vm_shape, vms
from coterie.sandbox.datacenter import Account
from coterie.sandbox.fit import Demand
from tests.kill.scenario import OPERATORS_GUARD

_OTHER_DIRECTOR = {DIRECTOR: "0b1f2c3d-0000-4000-8000-000000000000", INTENT: "01" + "z" * 24}
_LOOKS_LIKE_OURS = "cg-0b1f2c3d00-" + "z" * 26


def plant(account: Account) -> None:
    """An operator's objects with names like ours, and another Director's with a mark like ours."""
    image = images.create_image(account, name="debian-12").id
    group = server_groups.create_server_group(account, name=_LOOKS_LIKE_OURS, policy="anti-affinity").id
    security_groups.create_security_group(account, name=OPERATORS_GUARD)
    size = Demand(1, 512, 1024, "z1")
    vms.create_vm(account, name="web/0", size=size, image=image, group=group)
    vms.create_vm(account, name="store/0", size=size, image=image, tags=_OTHER_DIRECTOR)
    disks.create_disk(account, name="store/0", size_mb=1024, zone="z1")
    disks.create_disk(account, name="store/0", size_mb=1024, zone="z1", tags=_OTHER_DIRECTOR)


def planted(account: Account, director: str) -> dict[str, Any]:
    """Everything that does not carry our mark, as it is now, down to its revision."""
    found: dict[str, Any] = {}
    for listing in (vm_shape.list_vms, disks.list_disks, images.list_images, server_groups.list_server_groups):
        found.update((item.id, item) for item in listing(account).items if item.tags.get(DIRECTOR) != director)
    # the VMs that use a security group are no part of it
    guards = security_groups.list_security_groups(account).items
    found.update((guard.id, (guard.name, guard.tags)) for guard in guards if guard.tags.get(DIRECTOR) != director)
    return found
