"""Availability sets, scale sets and host groups, and the places that they spread VMs over. Fault domains of a region
are groups of hosts of the datacenter that share none: one in each of its first zones, or the racks of the only one."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.sandbox import quotas, server_groups
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler
from coterie.sandbox.fronts.azure.network import shout
from coterie.sandbox.fronts.azure.operations import moment
from coterie.sandbox.fronts.azure.refusals import ApiError, bad_reference, not_found
from coterie.sandbox.fronts.azure.shelf import Body, Resource, own
from coterie.sandbox.fronts.azure.sizes import SIZES
from coterie.sandbox.fronts.http_server import Reply
from coterie.sandbox.hosts import all_hosts

if TYPE_CHECKING:
    from coterie.sandbox.fronts.azure.front import Front

VM = "Microsoft.Compute/virtualMachines"
SET = "Microsoft.Compute/availabilitySets"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
HOST_GROUP = "Microsoft.Compute/hostGroups"
_NEW_SETS = 2000  # per region


class Groups:
    """`remove_vm`: what a scale set does with its members when it is deleted."""

    def __init__(self, front: Front, remove_vm: Callable[[Resource], None]) -> None:
        self._front = front
        self._account = front.account
        self._remove_vm = remove_vm
        self._domains: list[tuple[str, str | None]] = []

    def handlers(self) -> dict[str, Handler]:
        return {
            "PUT availabilitySets": self.put_set,
            "DELETE availabilitySets": self.delete_set,
            "GET availabilitySets/vmSizes": self.list_sizes,
            "PUT virtualMachineScaleSets": self.put_scale_set,
            "DELETE virtualMachineScaleSets": self.delete_scale_set,
            "PUT hostGroups": self.put_host_group,
            "DELETE hostGroups": self.delete_host_group,
        }

    def show(self, one: Resource) -> Body:
        shown = one.show()
        properties = shown["properties"]
        if one.type == SCALE_SET:
            unique = str(uuid.uuid5(uuid.NAMESPACE_URL, one.id))
            properties |= {"timeCreated": moment(one.created), "uniqueId": unique}
            return shown
        del properties["provisioningState"]
        if one.type == SET:
            properties["virtualMachines"] = [{"id": shout(vm.id).upper()} for vm in self.members(one)]
        else:
            properties["hosts"] = []
        return shown

    def put_set(self, call: Call) -> Reply:
        old, properties = self._front.shelf.get(call.path), call.body.setdefault("properties", {})
        most = len(self.domains())
        properties.setdefault("platformFaultDomainCount", most)
        properties.setdefault("platformUpdateDomainCount", 5)
        for key, limit in (("platformFaultDomainCount", most), ("platformUpdateDomainCount", 20)):
            if not 1 <= properties[key] <= limit:
                raise ApiError(
                    400, "InvalidParameter", f"The specified {key} {properties[key]} must fall in 1 to {limit}."
                )
            if old and old.properties[key] != properties[key]:
                raise ApiError(409, "PropertyChangeNotAllowed", f"Changing property '{key}' is not allowed.")
        if old is None and sum(1 for _ in self._front.shelf.every(SET)) >= self.ceiling():
            text = "Operation could not be completed as it results in exceeding approved AvailabilitySets quota."
            raise ApiError(409, "OperationNotAllowed", text)
        properties.pop("virtualMachines", None)
        one = self._save_group(call, SET, old)
        shown = self.show(one)
        del shown["properties"]["virtualMachines"]
        return Reply(200, shown)

    def delete_set(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        if self.members(one):
            text = f"Availability Set '{one.name}' cannot be deleted. Before deleting it please ensure that it "
            raise ApiError(409, "OperationNotAllowed", text + "does not contain any VM.")
        self.forget_group(one)
        return Reply(200)

    def list_sizes(self, call: Call) -> Reply:
        """Of the hardware that the first VM of the set has chosen."""
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(SET, call.names["availabilitySetName"], call.group)
        listed = [name for name in SIZES if name in found.facts.get("sizes", SIZES)]
        return Reply(200, {"value": [{"name": name, "numberOfCores": SIZES[name][0]} for name in listed]})

    def put_scale_set(self, call: Call) -> Reply:
        old, properties = self._front.shelf.get(call.path), call.body.get("properties") or {}
        if properties.get("orchestrationMode") != "Flexible" or properties.get("virtualMachineProfile"):
            raise ApiError(501, "NotSimulated", "This front has only Flexible scale sets without a profile.")
        if any(zone not in self.zones() for zone in call.body.get("zones") or []):
            raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) are not supported in {LOCATION}.")
        if old and not set(old.body.get("zones") or []) <= set(call.body.get("zones") or []):
            raise ApiError(409, "PropertyChangeNotAllowed", "Changing property 'zones' is not allowed.")
        one = self._save_group(call, SCALE_SET, old)
        return self._front.begin(call, one, 200 if old else 201, self.show(one))

    def delete_scale_set(self, call: Call) -> Reply:
        """Takes its members with it."""
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        for vm in self.members(one):
            self._remove_vm(vm)
            self._front.shelf.drop(vm)
        reply = self._front.delete_later(call, one)
        self.forget_group(one, keep_row=True)
        return reply

    def put_host_group(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        one = Resource(call.path, HOST_GROUP, call.name, own(call.body), old.created if old else time.time())
        self._front.shelf.put(one)
        return Reply(200 if old else 201, self.show(one))

    def delete_host_group(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one:
            self._front.shelf.drop(one)
        return Reply(200 if one else 204)

    def forget_group(self, one: Resource, *, keep_row: bool = False) -> None:
        with suppress(NoSuch):
            server_groups.delete_server_group(self._account, str(one.inner))
        if not keep_row:
            self._front.shelf.drop(one)

    def _save_group(self, call: Call, type_: str, old: Resource | None) -> Resource:
        body = own(call.body)
        if old:
            old.body, old.revision = body, old.revision + 1
            self._front.shelf.put(old)
            return old
        made = Resource(call.path, type_, call.name, body, time.time())
        tags = body.get("tags") or {}
        made.inner = server_groups.create_server_group(
            self._account, name=call.name, policy="soft-anti-affinity", tags=tags
        ).id
        self._front.shelf.put(made)
        return made

    def members(self, group: Resource) -> list[Resource]:
        key = {SET: "availabilitySet", SCALE_SET: "virtualMachineScaleSet", HOST_GROUP: "hostGroup"}[group.type]
        return [
            vm
            for vm in self._front.shelf.every(VM)
            if str((vm.properties.get(key) or {}).get("id", "")).lower() == group.id.lower()
        ]

    def scale_set_of(self, reference: Mapping[str, Any]) -> Resource:
        found = self._front.shelf.get(str(reference["id"]))
        if found is None:
            raise bad_reference(str(reference["id"]))
        return found

    def of(self, given: Body) -> Resource | None:
        for key in ("availabilitySet", "virtualMachineScaleSet", "hostGroup"):
            wanted = (given.get(key) or {}).get("id")
            if wanted:
                found = self._front.shelf.get(wanted)
                if found is None:
                    raise bad_reference(wanted)
                return found
        return None

    def require_zone(self, group: Resource, zones: list[str]) -> None:
        has = group.body.get("zones") or []
        if group.type in (SCALE_SET, HOST_GROUP) and sorted(has) != sorted(has if set(zones) & set(has) else zones):
            text = f"The zone(s) {zones} of the virtual machine are not those of {group.name}: {has}."
            raise ApiError(400, "BadRequest", text)

    def choose_domain(self, group: Resource | None) -> Body:
        """The domain with the fewest members; of equal ones the first."""
        if group is None or group.type == HOST_GROUP:
            return {}
        count = int(group.properties.get("platformFaultDomainCount") or 1)
        if group.type == SCALE_SET and count == 1:
            return {}
        held = Counter(vm.facts.get("fault_domain") for vm in self.members(group))
        made = int(group.facts.get("made", 0))
        group.facts["made"] = made + 1
        self._front.shelf.put(group)
        fault = min(range(count), key=lambda domain: (held[domain], domain))
        return {
            "fault_domain": fault,
            "update_domain": made % int(group.properties.get("platformUpdateDomainCount") or 5),
        }

    def where(self, one: Resource, group: Resource | None) -> tuple[str | None, str | None]:
        zones = one.body.get("zones") or []
        if zones:
            return self.zones()[zones[0]], None
        if "fault_domain" in one.facts:
            return self.domains()[int(one.facts["fault_domain"]) % len(self.domains())]
        return None, None

    def domains(self) -> list[tuple[str, str | None]]:
        if not self._domains:
            hosts = all_hosts(self._account.datacenter.store)
            zones = sorted({host.zone for host in hosts})[:3]
            racks = sorted({(host.zone, host.rack) for host in hosts})[:3]
            self._domains = [(zone, None) for zone in zones] if len(zones) > 1 else list(racks)
        return self._domains

    def zones(self) -> dict[str, str]:
        """Azure's names of zones → the datacenter's."""
        zones = sorted({host.zone for host in all_hosts(self._account.datacenter.store)})
        return {str(number): zone for number, zone in enumerate(zones, 1)}

    def ceiling(self) -> int:
        found = quotas.get_quotas(self._account)["server_groups"].ceiling
        return _NEW_SETS if found is None else found
