"""The parameters of a deploy: size, NICs, groups. Nothing is created here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from coterie.sandbox import networks, records
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.entities import inner_id
from coterie.sandbox.fronts.cloudstack.furnish import default_network
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.nics import NicRequest

ROOT_GIB = 5
_MAC = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


def offering(call: Call, zone: str) -> tuple[shelf.Thing, Demand]:
    """The service offering and the capacity that it takes; a custom one gets its size from `details`."""
    found = shelf.get(call.tx.db, "serviceoffering", call.params["serviceofferingid"])
    if found is None:
        raise refuse(f"Unable to find service offering {call.params['serviceofferingid']}")
    cpu, ram_mb = found.doc["cpu"], found.doc["ram_mb"]
    if cpu is None:
        details = {key.lower(): value for entry in call.get("details") or () for key, value in entry.items()}
        cpu, ram_mb = _number(details, "cpunumber"), _number(details, "memory")
    return found, Demand(cpu, ram_mb, size_of(call, found) * 1024, zone)


def size_of(call: Call, offered: shelf.Thing) -> int:
    return int(call.get("rootdisksize") or ROOT_GIB)


def nics(call: Call, zone: str) -> list[NicRequest]:
    """The NICs in order: from `iptonetworklist`, or from `networkids` with one address for the first."""
    entries = call.get("iptonetworklist")
    if entries and ("networkids" in call.params or "ipaddress" in call.params):
        raise refuse("ipToNetworkMap can't be specified along with networkIds or ipAddress")
    if entries:
        wanted = [(str(one.get("networkid")), one.get("ip"), _mac(one.get("mac"))) for one in entries]
    else:
        wanted = [(network, None, None) for network in call.get("networkids") or [_default(call, zone)]]
        wanted[0] = (wanted[0][0], call.get("ipaddress"), _mac(call.get("macaddress")))
    return [_nic(call, zone, number, *one) for number, one in enumerate(wanted)]


def security_groups(call: Call, zone: str) -> list[str]:
    """Security groups, by id or name; without a word, where the zone has them, the account's default one."""
    arguments = call.get("securitygroupids") or []
    names = call.get("securitygroupnames") or []
    if not call.flag("coterie.security.groups"):
        if arguments or names:
            raise refuse(f"Service SecurityGroup is not enabled in zone {zone}")
        return []
    if arguments and names:
        raise refuse("securitygroupids parameter is mutually exclusive with securitygroupnames parameter")
    found = [*arguments, *(_find_security_group(call, name) for name in names)] or [
        _find_security_group(call, "default")
    ]
    return [_existing(call, "securitygroup", wanted) for wanted in found]


def groups(call: Call) -> list[str]:
    arguments = call.get("affinitygroupids") or []
    names = call.get("affinitygroupnames") or []
    if arguments and names:
        raise refuse("affinitygroupids parameter is mutually exclusive with affinitygroupnames parameter")
    for name in names:
        found = next(shelf.every(call.tx.db, "affinitygroup", call.tx.account, name), None)
        if found is None:
            raise refuse(f"Unable to find group by name {name}")
        arguments.append(found.id)
    return [_existing(call, "affinitygroup", wanted) for wanted in dict.fromkeys(arguments)]


def _default(call: Call, zone: str) -> str:
    for thing in shelf.every(call.tx.db, "network", call.tx.account, default_network(zone)):
        return thing.id
    raise refuse(f"no network can be used by default in zone {zone}: name one")


def _mac(wanted: str | None) -> str | None:
    if wanted is None:
        return None
    if not _MAC.fullmatch(wanted):
        raise refuse(f"Mac address is not valid: {wanted}")
    if int(wanted[:2], 16) & 1:
        raise refuse(f"Mac address is not unicast: {wanted}")
    return wanted


def _nic(call: Call, zone: str, number: int, network: str, ip: str | None, mac: str | None) -> NicRequest:
    inner = inner_id("network", network)
    try:
        records.fetch(call.tx, networks.SHAPE, inner)
    except NoSuch:
        raise refuse(f"Unable to find network by id {network}") from None
    if shelf.doc_of(call.tx.db, network).get("zone", zone) != zone:
        raise refuse(f"Network {network} is not in zone {zone}")
    return NicRequest(f"nic{number}", inner, ip, f"nic{number}", mac)


def _existing(call: Call, kind: str, wanted: str) -> str:
    inner = inner_id(kind, wanted)
    found = call.tx.db.execute(
        "SELECT 1 FROM objects WHERE id = ? AND account = ?", (inner, call.tx.account)
    ).fetchone()
    if not found:
        raise refuse(f"Unable to find {kind} by id {wanted}")
    return inner


def _find_security_group(call: Call, name: str) -> str:
    for thing in shelf.every(call.tx.db, "securitygroup", call.tx.account, name):
        return thing.id
    raise refuse(f"Unable to find group by name {name}")


def _number(details: Mapping[str, str], key: str) -> int:
    try:
        return int(details[key])
    except (KeyError, ValueError):
        raise refuse(f"Need to specify custom parameter values cpu, memory: {key} is missing") from None
