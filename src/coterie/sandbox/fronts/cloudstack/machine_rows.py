"""A VM in the vendor's words. Nothing changes here."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterator

from coterie.sandbox import networks, records
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, tag_rows, time_words
from coterie.sandbox.fronts.cloudstack.nat import addresses_of_vm
from coterie.sandbox.fronts.cloudstack.policies import TYPES
from coterie.sandbox.nics import Nic
from coterie.sandbox.security_groups import SHAPE as SECURITY_GROUPS
from coterie.sandbox.server_groups import SHAPE as GROUP
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import Vm

STATES = {"building": "Starting", "running": "Running", "stopped": "Stopped", "error": "Error"}


def state_of(vm: Vm, doc: Row) -> str:
    """Destroyed and Error are this front's words; the datacenter only knows that such a VM does not run."""
    return str(doc.get("state") or STATES[vm.state])


def machine_row(tx: Tx, vm: Vm) -> Row:
    wanted = outer_id(vm.id)
    doc = shelf.doc_of(tx.db, wanted)
    public = next(iter(addresses_of_vm(tx, wanted)), None)
    return {
        "id": wanted,
        "name": vm.name,
        "displayname": doc.get("displayname") or vm.name,
        "instancename": f"i-2-{vm.seq}-VM",
        "state": state_of(vm, doc),
        "created": time_words(vm.created_at),
        **places.owner_words(vm.account),
        **places.zone_words(vm.zone),
        "hostid": places.id_of("host", vm.host) if vm.host else None,
        "hostname": vm.host,
        "templateid": outer_id(vm.image),
        "serviceofferingid": doc.get("offering"),
        "serviceofferingname": doc.get("offering_name"),
        "cpunumber": vm.cpu,
        "cpuspeed": 2000,
        "memory": vm.ram_mb,
        "hypervisor": places.HYPERVISOR,
        "keypairs": doc.get("keypair"),
        "details": doc.get("details"),
        "haenable": False,
        "passwordenabled": False,
        "rootdeviceid": 0,
        "rootdevicetype": "ROOT",
        "publicip": public.name if public else None,
        "publicipid": public.id if public else None,
        "nic": list(nic_rows(tx, vm)),
        "affinitygroup": [_group_row(tx, group) for group in vm.groups],
        "securitygroup": [_security_group_row(tx, group) for group in vm.security_groups],
        "tags": tag_rows(vm, "UserVm"),
    }


def nic_id(vm: Vm, nic: Nic) -> str:
    return str(uuid.uuid5(uuid.UUID(outer_id(vm.id)), nic.label))


def nic_rows(tx: Tx, vm: Vm) -> Iterator[Row]:
    """In the order in which they were asked for."""
    for number, nic in enumerate(sorted(vm.nics, key=lambda nic: (len(nic.label), nic.label))):
        network = records.fetch(tx, networks.SHAPE, nic.network)
        within = ipaddress.ip_network(network.range) if network.range else None
        yield {
            "id": nic_id(vm, nic),
            "deviceid": str(number),
            "networkid": outer_id(nic.network),
            "networkname": network.name,
            "ipaddress": nic.ip,
            "netmask": str(within.netmask) if within else None,
            "gateway": network.gateway,
            "macaddress": nic.mac,
            "isdefault": number == 0,
            "traffictype": "Guest",
            "type": shelf.doc_of(tx.db, str(shelf.doc_of(tx.db, outer_id(nic.network)).get("offering"))).get("guest"),
        }


def _group_row(tx: Tx, group: str) -> Row:
    found = records.fetch(tx, GROUP, group)
    return {"id": outer_id(group), "name": found.name, "type": TYPES[found.policy]}


def _security_group_row(tx: Tx, group: str) -> Row:
    return {"id": outer_id(group), "name": records.fetch(tx, SECURITY_GROUPS, group).name}
