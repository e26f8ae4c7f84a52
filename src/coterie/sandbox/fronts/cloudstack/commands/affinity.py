"""Affinity groups: their names are unique in an account, and deleting one that is in use silently empties it."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox import records, server_groups
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.policies import ADMINS_ONLY, POLICIES, TYPES
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.server_groups import SHAPE, ServerGroup, read_members
from coterie.sandbox.twist import Tx


def _begin(call: Call) -> str:
    name, kind = call.params["name"], call.params["type"]
    if kind not in POLICIES:
        raise refuse(f"Unable to create affinity group, invalid affinity group type {kind}")
    if kind in ADMINS_ONLY and not call.caller.admin:
        raise ApiError(PERMISSION, "Cannot create the affinity group")
    if any(records_of_name(call.tx, name)):
        raise refuse(f"Unable to create affinity group, a group with name {name} already exists.")
    made = work_of(server_groups.create_server_group)(call.tx, name=name, policy=POLICIES[kind])
    wanted = outer_id(made.id)
    shelf.put(call.tx, "affinitygroup", name, {"description": call.get("description") or name}, wanted)
    return wanted


@job("createAffinityGroup", begin=_begin)
def create(call: Call, wanted: str) -> Row:
    return affinity_row(call.tx, records.fetch(call.tx, SHAPE, inner_id("affinitygroup", wanted)))


@job("deleteAffinityGroup", begin=lambda call: _find_by_name(call))
def delete(call: Call, wanted: str) -> None:
    """Delete the group even if it has members; they leave it silently."""
    work_of(server_groups.delete_server_group)(call.tx, inner_id("affinitygroup", wanted))
    shelf.bury(call.tx, wanted)


@answers("listAffinityGroups")
def list_groups(call: Call) -> Iterator[Row]:
    rows = rows_of_accounts(
        call,
        lambda tx: (affinity_row(tx, one) for one in records_of(tx, SHAPE, call.get("name")) if one.policy in TYPES),
    )
    vm = call.get("virtualmachineid")
    if vm:
        rows = (row for row in rows if vm in row["virtualmachineIds"])
    return filter_rows(call, rows, "id", "name", "type", like=("name", "description"))


@answers("listAffinityGroupTypes")
def list_types(call: Call) -> Iterator[Row]:
    return iter({"type": kind} for kind in POLICIES if call.caller.admin or kind not in ADMINS_ONLY)


def records_of_name(tx: Tx, name: str) -> Iterator[ServerGroup]:
    """Also those that lists do not show yet: names are unique all the same."""
    rows = tx.db.execute(
        "SELECT id FROM objects WHERE account = ? AND kind = ? AND name = ?", (tx.account, SHAPE.kind, name)
    ).fetchall()
    return (records.fetch(tx, SHAPE, row[0]) for row in rows)


def affinity_row(tx: Tx, group: ServerGroup) -> Row:
    wanted = outer_id(group.id)
    return {
        "id": wanted,
        "name": group.name,
        "type": TYPES[group.policy],
        "description": shelf.doc_of(tx.db, wanted).get("description", group.name),
        "virtualmachineIds": [outer_id(vm) for vm in work_of(read_members)(tx, group.id)],
        **places.owner_words(group.account),
    }


def _find_by_name(call: Call) -> str:
    call.needs("id", "name")
    if "id" in call.params:
        return str(call.params["id"])
    for found in records_of_name(call.tx, call.params["name"]):
        return outer_id(found.id)
    raise refuse(f"Unable to find affinity group {call.params['name']}")
