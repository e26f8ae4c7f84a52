"""Limits of an account, by the vendor's numbers, on the quotas of the datacenter."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.places import owner_words
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.quotas import get_quotas

# number → the vendor's name, the datacenter's quota
TYPES = {
    0: ("user_vm", "instances"),
    2: ("volume", "volumes"),
    3: ("snapshot", "snapshots"),
    4: ("template", "images"),
    8: ("cpu", "cpu"),
    9: ("memory", "ram_mb"),
    10: ("primary_storage", "volume_gb"),
}


@answers("listResourceLimits")
def list_limits(call: Call) -> Iterator[Row]:
    quotas = work_of(get_quotas)(call.tx)
    for number, (name, quota) in TYPES.items():
        if call.get("resourcetype", number) == number:
            ceiling = quotas[quota].ceiling
            yield _row(call, number, name, -1 if ceiling is None else ceiling)


@answers("updateResourceLimit", writes=True)
def update_limit(call: Call) -> Row:
    if not call.caller.admin:
        raise ApiError(PERMISSION, "only administrators may change limits")
    number, most = call.params["resourcetype"], call.get("max", -1)
    if number not in TYPES:
        raise refuse(f"Please specify a valid resource type, not {number}")
    name, quota = TYPES[number]
    account = call.get("account") or call.tx.account
    call.tx.db.execute(
        "UPDATE usage SET ceiling = ? WHERE account = ? AND resource = ?", (None if most < 0 else most, account, quota)
    )
    return _row(call, number, name, most)


def _row(call: Call, number: int, name: str, most: int) -> Row:
    return {"resourcetype": str(number), "resourcetypename": name, "max": most, **owner_words(call.tx.account)}
