"""Whether uuids in a request mean something. One that was never known is refused, one of an expunged thing is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.definition import Parameter
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.twist import Tx

# response class → kind of thing here
KINDS = {
    "UserVmResponse": "vm",
    "VolumeResponse": "volume",
    "SnapshotResponse": "snapshot",
    "TemplateResponse": "template",
    "TemplatePermissionsResponse": "template",
    "NetworkResponse": "network",
    "AffinityGroupResponse": "affinitygroup",
    "SecurityGroupResponse": "securitygroup",
    "ServiceOfferingResponse": "serviceoffering",
    "DiskOfferingResponse": "diskoffering",
    "NetworkOfferingResponse": "networkoffering",
    "IPAddressResponse": "publicip",
    "SSHKeyPairResponse": "keypair",
}
# kind of thing → prefix of its id in the datacenter
PREFIXES = {
    "vm": "vm",
    "volume": "disk",
    "snapshot": "snap",
    "template": "img",
    "network": "net",
    "affinitygroup": "grp",
    "securitygroup": "sec",
}

RULES = ("ingress", "egress")  # where the document of a security group has its rules


def inner_id(kind: str, wanted: str) -> str:
    """The datacenter's id of a thing with this uuid."""
    return f"{PREFIXES[kind]}-{wanted}"


def outer_id(inner: str) -> str:
    return inner.partition("-")[2]


def check(call: Call) -> None:
    """Refuse the first unknown uuid; an administrator then works in the account of the object that `id` names."""
    for name, parameter in call.command.parameters.items():
        if name in call.params and parameter.entity:
            for wanted in _uuids(parameter, call.params[name]):
                _require(call, parameter, wanted)
    if call.caller.admin:
        call.tx = _in_owners_account(call.tx, call)


def is_known(tx: Tx, kind: str, wanted: str) -> bool:
    if shelf.was_known(tx.db, kind, wanted):
        return True
    inner = inner_id(kind, wanted) if kind in PREFIXES else ""
    return tx.db.execute("SELECT 1 FROM objects WHERE id = ?", (inner,)).fetchone() is not None


def _uuids(parameter: Parameter, value: Any) -> list[str]:
    return list(value) if parameter.type == "list" else [str(value)]


def _require(call: Call, parameter: Parameter, wanted: str) -> None:
    if not any(_means(call.tx, entity, wanted) for entity in parameter.entity):
        raise refuse(
            f"Unable to execute API command {call.command.name.lower()} due to invalid value. Invalid parameter "
            f"{parameter.name} value={wanted} due to incorrect long value format, or entity does not exist or due to "
            "incorrect parameter annotation for the field in api cmd class."
        )


def _means(tx: Tx, entity: str, wanted: str) -> bool:
    if entity in KINDS:
        return is_known(tx, KINDS[entity], wanted)
    if entity == "ZoneResponse":
        return wanted == "-1" or any(places.id_of("zone", zone) == wanted for zone in places.zones(tx))
    if entity == "HostResponse":
        return any(places.id_of("host", host) == wanted for host in places.hosts(tx))
    if entity == "StoragePoolResponse":
        return any(places.id_of("pool", name) == wanted for name in (*places.zones(tx), *places.hosts(tx)))
    if entity == "AsyncJobResponse":
        return True  # asking after a job is answered by the job's own command
    if entity == "NicResponse":
        return True  # the command looks for it among the caller's VMs
    if entity == "SecurityGroupRuleResponse":
        groups = [thing.doc for thing in shelf.every(tx.db, "securitygroup")]
        return any(rule["ruleid"] == wanted for doc in groups for side in RULES for rule in doc.get(side) or ())
    if entity == "DomainResponse":
        return wanted == places.id_of("domain", "ROOT")
    if entity == "GuestOSResponse":
        return any(places.id_of("ostype", name) == wanted for name in places.OS_TYPES)
    return False


def _in_owners_account(tx: Tx, call: Call) -> Tx:
    wanted = call.get("id") or call.get("virtualmachineid")
    if not wanted:
        return tx
    row = tx.db.execute("SELECT account FROM objects WHERE id = ?", (_inner(call, str(wanted)),)).fetchone()
    return replace(tx, account=row[0]) if row else tx


def _inner(call: Call, wanted: str) -> str:
    name = "id" if "id" in call.params else "virtualmachineid"
    kind = KINDS.get(next(iter(call.command.parameters[name].entity), ""), "")
    return inner_id(kind, wanted) if kind in PREFIXES else ""
