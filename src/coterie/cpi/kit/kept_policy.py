"""Whether a cloud kept a strict policy when it placed a new VM, for clouds in which VMs that boot at once do not see
each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from coterie.cpi.contract import VMCreationFailed
from coterie.cpi.kit.server_groups import Membership
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class PlacedVm:
    """`age`: sorts VMs from the oldest to the youngest. `is_checked`: its creation has passed this check already, or is
    none of ours."""

    id: str
    host: str
    age: tuple[str, ...]
    is_checked: bool


class YoungerStays(VMCreationFailed):
    """Only younger VMs break the policy, which were to fail and did not in time."""


def require_kept_policy(
    vm: PlacedVm, membership: Membership, list_members: Callable[[], Iterable[PlacedVm]], wait_s: float, poll_s: float
) -> None:
    """Of two VMs that break the policy the younger one fails, so that not both do. One that has passed the check is not
    checked again, so an elder fails beside it too. A younger one that is not checked yet is waited for."""
    if membership.policy not in ("anti-affinity", "affinity"):
        return
    deadline = time.monotonic() + wait_s
    while breakers := _breakers(vm, membership, list_members()):
        yielding = [one for one in breakers if one.age > vm.age and not one.is_checked]
        is_elder = len(yielding) == len(breakers)
        if not is_elder or time.monotonic() >= deadline:
            raise (YoungerStays if is_elder else VMCreationFailed)(
                f"the cloud broke policy {membership.policy} of server group {membership.cid}",
                why=f"VM {vm.id} is on host {vm.host}, VM {breakers[0].id} on host {breakers[0].host}",
                remedy="repeat; with fewer VMs of the group at once",
                retryable=True,
            )
        time.sleep(poll_s)


def _breakers(vm: PlacedVm, membership: Membership, members: Iterable[PlacedVm]) -> list[PlacedVm]:
    wants_same = membership.policy == "affinity"
    return [one for one in members if one.id != vm.id and (one.host == vm.host) != wants_same]
