"""Security groups: one that a VM is in cannot be deleted, and the default one never."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.sandbox import records, security_groups
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts, tag_rows
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.security_groups import SHAPE, SecurityGroup
from coterie.sandbox.twist import Tx

_PORTS = ("startport", "endport", "icmptype", "icmpcode")


@answers("createSecurityGroup", writes=True)
def create(call: Call) -> Row:
    name = call.params["name"]
    if list(shelf.every(call.tx.db, "securitygroup", call.tx.account, name)):
        raise refuse(f"Unable to create security group, a group with name {name} already exists.")
    made = work_of(security_groups.create_security_group)(call.tx, name=name)
    doc: Row = {"description": call.get("description") or "", "ingress": [], "egress": []}
    shelf.put(call.tx, "securitygroup", name, doc, outer_id(made.id))
    return _row(call.tx, made)


@answers("deleteSecurityGroup", writes=True)
def delete(call: Call) -> None:
    wanted = _find_by_name(call, "id", "name")
    if _fetch(call.tx, wanted).name == "default":
        raise refuse("The network group default is reserved")
    work_of(security_groups.delete_security_group)(call.tx, inner_id("securitygroup", wanted))
    shelf.bury(call.tx, wanted)


@answers("listSecurityGroups")
def list_groups(call: Call) -> Iterator[Row]:
    rows = rows_of_accounts(call, lambda tx: (_row(tx, one) for one in records_of(tx, SHAPE)))
    name, vm = call.get("securitygroupname"), call.get("virtualmachineid")
    rows = (row for row in rows if name in (None, row["name"]))
    rows = (row for row in rows if vm is None or vm in row["virtualmachineids"])
    return filter_rows(call, rows, "id", like=("name",))


@job("authorizeSecurityGroupIngress", begin=lambda call: _find_by_name(call, "securitygroupid", "securitygroupname"))
def authorize_ingress(call: Call, wanted: str) -> Row:
    return _authorize(call, wanted, "ingress")


@job("authorizeSecurityGroupEgress", begin=lambda call: _find_by_name(call, "securitygroupid", "securitygroupname"))
def authorize_egress(call: Call, wanted: str) -> Row:
    return _authorize(call, wanted, "egress")


def _authorize(call: Call, wanted: str, side: str) -> Row:
    if not call.get("cidrlist") and not call.get("usersecuritygrouplist"):
        raise refuse("At least one cidr or at least one security group needs to be specified")
    common: dict[str, Any] = {name: call.params[name] for name in _PORTS if name in call.params}
    common["protocol"] = str(call.get("protocol") or "all").lower()
    rules = list(shelf.doc_of(call.tx.db, wanted).get(side) or ())
    for cidr in call.get("cidrlist") or ():
        rule = {**common, "cidr": cidr}
        if any({**one, "ruleid": None} == {**rule, "ruleid": None} for one in rules):
            raise refuse("a rule of these ports, protocol and cidr already exists")
        rules.append({**rule, "ruleid": call.tx.ids.uuid()})
    shelf.note(call.tx, wanted, **{side: rules})
    return _row(call.tx, _fetch(call.tx, wanted))


@job("revokeSecurityGroupIngress", begin=lambda call: _find_by_rule(call, "ingress"))
def revoke_ingress(call: Call, wanted: str) -> None:
    _revoke(call, wanted, "ingress")


@job("revokeSecurityGroupEgress", begin=lambda call: _find_by_rule(call, "egress"))
def revoke_egress(call: Call, wanted: str) -> None:
    _revoke(call, wanted, "egress")


def _find_by_rule(call: Call, side: str) -> str:
    """The security group that has the rule `id`."""
    for thing in shelf.every(call.tx.db, "securitygroup", call.tx.account):
        if any(rule["ruleid"] == call.params["id"] for rule in thing.doc.get(side) or ()):
            return thing.id
    raise refuse(f"Unable to find security rule with id {call.params['id']}")


def _revoke(call: Call, wanted: str, side: str) -> None:
    rules = shelf.doc_of(call.tx.db, wanted).get(side) or ()
    shelf.note(call.tx, wanted, **{side: [rule for rule in rules if rule["ruleid"] != call.params["id"]]})


def _row(tx: Tx, group: SecurityGroup) -> Row:
    wanted = outer_id(group.id)
    doc = shelf.doc_of(tx.db, wanted)
    return {
        "id": wanted,
        "name": group.name,
        "description": doc.get("description", ""),
        "ingressrule": doc.get("ingress") or [],
        "egressrule": doc.get("egress") or [],
        "virtualmachinecount": len(group.vms),
        "virtualmachineids": [outer_id(vm) for vm in group.vms],
        "tags": tag_rows(group, "SecurityGroup"),
        **places.owner_words(group.account),
    }


def _fetch(tx: Tx, wanted: str) -> SecurityGroup:
    return records.fetch(tx, SHAPE, inner_id("securitygroup", wanted))


def _find_by_name(call: Call, by_id: str, by_name: str) -> str:
    call.needs(by_id, by_name)
    if by_id in call.params:
        return str(call.params[by_id])
    for thing in shelf.every(call.tx.db, "securitygroup", call.tx.account, call.params[by_name]):
        return thing.id
    raise refuse(f"Unable to find security group by name {call.params[by_name]}")
