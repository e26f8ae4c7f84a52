"""Virtual networks, network interfaces, security groups of both kinds and public addresses. An address is taken when
its interface is made; the datacenter learns of it with the VM."""

from __future__ import annotations

import ipaddress
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.sandbox import networks, security_groups, vms
from coterie.sandbox.errors import NoSuch, SandboxError
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler
from coterie.sandbox.fronts.azure.operations import Pending
from coterie.sandbox.fronts.azure.refusals import ApiError, bad_reference
from coterie.sandbox.fronts.azure.shelf import Body, Resource
from coterie.sandbox.fronts.http_server import Reply

if TYPE_CHECKING:
    from coterie.sandbox.fronts.azure.front import Front

NIC = "Microsoft.Network/networkInterfaces"
NSG = "Microsoft.Network/networkSecurityGroups"
ASG = "Microsoft.Network/applicationSecurityGroups"
IP = "Microsoft.Network/publicIPAddresses"
VNET = "Microsoft.Network/virtualNetworks"
SUBNET = f"{VNET}/subnets"
_RESERVED = 4  # at the beginning of a subnet
_DEFAULT_RULES = (
    ("AllowVnetInBound", "Inbound", "Allow", "VirtualNetwork", "VirtualNetwork", 65000),
    ("AllowAzureLoadBalancerInBound", "Inbound", "Allow", "AzureLoadBalancer", "*", 65001),
    ("DenyAllInBound", "Inbound", "Deny", "*", "*", 65500),
    ("AllowVnetOutBound", "Outbound", "Allow", "VirtualNetwork", "VirtualNetwork", 65000),
    ("AllowInternetOutBound", "Outbound", "Allow", "*", "Internet", 65001),
    ("DenyAllOutBound", "Outbound", "Deny", "*", "*", 65500),
)


class Network:
    def __init__(self, front: Front) -> None:
        self._front = front

    def handlers(self) -> dict[str, Handler]:
        simple = {
            "networkInterfaces": (self.put_nic, self.delete_nic),
            "networkSecurityGroups": (self.put_nsg, self.delete_nsg),
            "applicationSecurityGroups": (self.put_asg, self.delete_asg),
            "publicIPAddresses": (self.put_ip, self.delete_ip),
            "virtualNetworks": (self.put_vnet, self.delete_vnet),
            "virtualNetworks/subnets": (self.put_subnet, self.delete_subnet),
            "networkSecurityGroups/securityRules": (self.put_rule, self.delete_rule),
        }
        found: dict[str, Handler] = {}
        for type_, (put, delete) in simple.items():
            found |= {f"PUT {type_}": put, f"DELETE {type_}": delete, f"GET {type_}": self.get}
            found[f"PATCH {type_}"] = self.patch_tags
        return found | {"GET locations/usages": self.usages, "GET virtualNetworks/usages": self.usages}

    def furnish(self, group: str, prefix: str) -> None:
        """The virtual network `default` with one subnet `default`, which is the account's network of that name."""
        id_ = self._front.path(group, VNET, "default")
        if self._front.shelf.get(id_):
            return
        body = {"location": LOCATION, "properties": {"addressSpace": {"addressPrefixes": [prefix]}}}
        self._front.shelf.put(Resource(id_, VNET, "default", body, time.time()))
        subnet = {"properties": {"addressPrefix": prefix}}
        made = Resource(f"{id_}/subnets/default", SUBNET, "default", subnet, time.time(), inner="default")
        self._front.shelf.put(made)

    # -- reading --

    def get(self, call: Call) -> Reply:
        type_ = f"Microsoft.Network/{call.type}"
        if call.type.endswith("securityRules"):
            return self._get_rule(call)
        if call.operation.is_list:
            below = call.path.rsplit("/", 1)[0] if call.type == "virtualNetworks/subnets" else ""
            rows = self._front.listed(type_, call.names.get("resourceGroupName"))
            return self._front.page(call, [self.show(one) for one in rows if one.id.lower().startswith(below.lower())])
        one = self._front.require(call, type_)
        return Reply(200, self.show(one), {"ETag": _etag(one)})

    def show(self, one: Resource) -> Body:
        shown: Body = {"name": one.name, "id": one.id, "etag": _etag(one), "type": one.type, **one.body}
        shown["properties"] = {"provisioningState": one.state, **one.properties}
        if one.type not in (ASG, SUBNET):
            shown["properties"]["resourceGuid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, one.id.lower()))
        extra = {NIC: self._nic, NSG: self._nsg, IP: self._ip, VNET: self._vnet, SUBNET: self._subnet}.get(one.type)
        if extra:
            extra(one, shown)
        return shown

    def _nic(self, one: Resource, shown: Body) -> None:
        properties = shown["properties"]
        properties["ipConfigurations"] = [
            {
                "name": config["name"],
                "id": f"{one.id}/ipConfigurations/{config['name']}",
                "etag": _etag(one),
                "type": f"{NIC}/ipConfigurations",
                "properties": {"provisioningState": one.state, "primary": n == 0, **config["properties"]},
            }
            for n, config in enumerate(properties["ipConfigurations"])
        ]
        quiet: Body = {"vnetEncryptionSupported": False, "enableIPForwarding": False, "disableTcpStateTracking": False}
        quiet |= {"hostedWorkloads": [], "tapConfigurations": [], "nicType": "Standard", "allowPort25Out": True}
        quiet |= {"auxiliaryMode": "None", "auxiliarySku": "None"}
        dns = {"dnsServers": [], "appliedDnsServers": [], "internalDomainNameSuffix": "x.internal.cloudapp.net"}
        shown["properties"] = {**quiet, "dnsSettings": dns, **properties}
        shown["kind"] = "Regular"
        if one.facts.get("mac"):
            shown["properties"]["macAddress"] = one.facts["mac"]
        if one.facts.get("vm"):
            shown["properties"] |= {
                "virtualMachine": {"id": shout(one.facts["vm"])},
                "primary": one.facts.get("primary"),
            }

    def _nsg(self, one: Resource, shown: Body) -> None:
        properties = shown["properties"]
        properties["securityRules"] = [self._rule(one, each) for each in one.properties.get("securityRules") or ()]
        properties["defaultSecurityRules"] = [
            self._rule(one, _default_rule(*each), "defaultSecurityRules") for each in _DEFAULT_RULES
        ]
        used = [nic for nic in self._nics() if _is_id(nic.properties.get("networkSecurityGroup"), one.id)]
        if used:
            properties["networkInterfaces"] = [{"id": shout(nic.id)} for nic in used]

    def _ip(self, one: Resource, shown: Body) -> None:
        shown.setdefault("sku", {"name": "Standard"})
        shown["sku"].setdefault("tier", "Regional")
        shown["properties"] = {
            "publicIPAddressVersion": "IPv4",
            "publicIPAllocationMethod": "Dynamic",
            "idleTimeoutInMinutes": 4,
            "ipTags": [],
            **shown["properties"],
        }
        shown["properties"]["ipAddress"] = one.facts["address"]
        used = self._users_of_ip(one)
        if used:
            shown["properties"]["ipConfiguration"] = {"id": shout(used[0])}

    def _vnet(self, one: Resource, shown: Body) -> None:
        rows = [self.show(each) for each in self._front.shelf.every(SUBNET, f"{one.id}/")]
        quiet = {"virtualNetworkPeerings": [], "enableDdosProtection": False, "privateEndpointVNetPolicies": "Disabled"}
        shown["properties"] = {**quiet, **shown["properties"], "subnets": rows}

    def _subnet(self, one: Resource, shown: Body) -> None:
        quiet = {"delegations": [], "privateEndpointNetworkPolicies": "Disabled"}
        shown["properties"] = {**quiet, "privateLinkServiceNetworkPolicies": "Enabled", **shown["properties"]}
        used = [f"{nic.id}/ipConfigurations/{each['name']}" for nic, each in self._configs(one.id)]
        if used:
            shown["properties"]["ipConfigurations"] = [{"id": shout(each)} for each in used]

    # -- network interfaces --

    def put_nic(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        body = _own(call.body)
        if old and old.state == "Deleting":
            raise ApiError(409, "AnotherOperationInProgress", f"Another operation on {call.name} is in progress.")
        self._require_free(old, call.path)
        for config in body["properties"]["ipConfigurations"]:
            config["properties"] = self._address(call.path, config.get("properties") or {}, old)
        body["properties"]["ipConfigurations"] = [
            {"name": each["name"], "properties": each["properties"]} for each in body["properties"]["ipConfigurations"]
        ]
        self._require_known(body["properties"].get("networkSecurityGroup"))
        one = self._save(call, NIC, body, old)
        if one.facts.get("vm_inner"):
            self._protect(one)
        return Reply(200 if old else 201, self.show(one))

    def delete_nic(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        self._require_free(one, call.path)
        vm = one.facts.get("vm")
        if vm:
            text = f"Network Interface {one.id} is used by existing resource {vm}. In order to delete the network "
            raise ApiError(400, "NicInUse", text + "interface, it must be dissociated from the resource.")
        return self._front.delete_later(call, one)

    def attach(self, nic: Resource, vm: Resource, inner: str, mac: str | None, primary: bool) -> None:
        nic.facts |= {"vm": vm.id, "vm_inner": inner, "mac": (mac or "").upper().replace(":", "-"), "primary": primary}
        self._front.shelf.put(nic)

    def release(self, nic: Resource) -> None:
        for key in ("vm", "vm_inner", "mac", "primary", "reserved_for", "reserved_until"):
            nic.facts.pop(key, None)
        self._front.shelf.put(nic)

    def reserve(self, nic: Resource, vm: str) -> None:
        """A VM that could not be made keeps its NIC for a while, also when it is gone itself."""
        nic.facts |= {"reserved_for": vm, "reserved_until": time.time() + self._front.settings.nic_reservation_s}
        self._front.shelf.put(nic)

    def addresses_of(self, nic: Resource) -> list[tuple[str, str]]:
        """(the datacenter's network, the address) of each configuration."""
        found = []
        for config in nic.properties["ipConfigurations"]:
            subnet = self._front.shelf.get(config["properties"]["subnet"]["id"])
            found.append((str(subnet.inner if subnet else ""), str(config["properties"]["privateIPAddress"])))
        return found

    def security_groups_of(self, nic: Resource) -> list[str]:
        nsg = self._front.shelf.get((nic.properties.get("networkSecurityGroup") or {}).get("id", ""))
        return [nsg.inner] if nsg and nsg.inner else []

    def require_free(self, nic: Resource, vm: str) -> None:
        """For a VM that is to have it."""
        held = nic.facts.get("vm")
        if held and held.lower() != vm.lower():
            raise ApiError(400, "NicInUse", f"Network Interface {nic.id} is used by existing resource {held}.")
        if nic.facts.get("reserved_for", vm).lower() != vm.lower():
            self._require_free(nic, nic.id)

    def _require_free(self, one: Resource | None, id_: str) -> None:
        if one and one.facts.get("reserved_until", 0) > time.time():
            text = f"Nic(s) in request is reserved for another Virtual Machine for 180 seconds. {id_} is reserved for "
            raise ApiError(400, "NicReservedForAnotherVm", text + one.facts["reserved_for"])

    def _protect(self, nic: Resource) -> None:
        with suppress(NoSuch):
            vms.set_vm_security_groups(self._front.account, nic.facts["vm_inner"], self.security_groups_of(nic))

    def _address(self, nic: str, given: Body, old: Resource | None) -> Body:
        subnet = self._front.shelf.get((given.get("subnet") or {}).get("id", ""))
        if subnet is None or subnet.type != SUBNET:
            raise bad_reference(str((given.get("subnet") or {}).get("id")))
        for one in (given.get("publicIPAddress"), *(given.get("applicationSecurityGroups") or ())):
            self._require_known(one)
        public = (given.get("publicIPAddress") or {}).get("id")
        if public:
            users = [
                each for each in self._users_of_ip(self._known(public)) if not each.lower().startswith(nic.lower())
            ]
            if users:
                raise ApiError(400, "PublicIPAddressInUse", f"Resource {users[0]} is using {public}.")
        wanted = given.get("privateIPAddress") if given.get("privateIPAllocationMethod") == "Static" else None
        taken = {
            each["properties"].get("privateIPAddress")
            for other, each in self._configs(subnet.id)
            if other.id.lower() != nic.lower()
        }
        net = ipaddress.ip_network(subnet.properties["addressPrefix"])
        if wanted:
            _require_address(wanted, net)
            if wanted in taken:
                text = f"IP configuration {nic} is using the private IP address {wanted} which is already allocated."
                raise ApiError(400, "PrivateIPAddressIsAllocated", text)
        else:
            before = [
                each["properties"]["privateIPAddress"] for each in (old.properties["ipConfigurations"] if old else ())
            ]
            wanted = before[0] if before else _free(net, taken)
        return {
            "privateIPAddressVersion": "IPv4",
            "privateIPAllocationMethod": "Dynamic",
            **{key: one for key, one in given.items() if key not in ("provisioningState", "primary")},
            "privateIPAddress": wanted,
        }

    # -- security groups --

    def put_nsg(self, call: Call) -> Reply:
        old, body = self._front.shelf.get(call.path), _own(call.body)
        rules = body.setdefault("properties", {}).setdefault("securityRules", [])
        for n, rule in enumerate(rules):
            self._require_rule(rule["properties"], [each["properties"] for each in rules[:n]])
        one = self._save(call, NSG, body, old)
        if one.inner is None:
            one.inner = security_groups.create_security_group(
                self._front.account, name=one.name, tags=one.body.get("tags")
            ).id
        return self._passing(call, one, old)

    def delete_nsg(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        used = [nic.id for nic in self._nics() if _is_id(nic.properties.get("networkSecurityGroup"), one.id)]
        if used:
            text = (
                f"Network security group {one.id} cannot be deleted because it is in use by the following resources: "
            )
            raise ApiError(400, "InUseNetworkSecurityGroupCannotBeDeleted", text + ", ".join(used))
        with suppress(SandboxError):
            security_groups.delete_security_group(self._front.account, str(one.inner))
        return self._front.delete_later(call, one)

    def put_asg(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        return self._passing(call, self._save(call, ASG, _own(call.body), old), old)

    def delete_asg(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        used = [*self._nics_in(one), *self._rules_with(one)]
        if used:
            text = f"Application security group {one.id} cannot be deleted because it is in use by {', '.join(used)}."
            raise ApiError(400, "InUseApplicationSecurityGroupCannotBeDeleted", text)
        return self._front.delete_later(call, one)

    def put_rule(self, call: Call) -> Reply:
        nsg = self._parent(call)
        name, properties = call.name, _own(call.body).get("properties") or {}
        rules = nsg.properties.setdefault("securityRules", [])
        others = [each for each in rules if each["name"].lower() != name.lower()]
        self._require_rule(properties, [each["properties"] for each in others])
        is_new = len(others) == len(rules)
        made = {"name": name, "properties": properties}
        nsg.properties["securityRules"] = [*others, made]
        nsg.revision += 1
        self._front.shelf.put(nsg)
        return self._front.begin(call, nsg, 201 if is_new else 200, self._rule(nsg, made, state="Updating"))

    def delete_rule(self, call: Call) -> Reply:
        nsg = self._parent(call)
        rules = nsg.properties.get("securityRules") or []
        left = [each for each in rules if each["name"].lower() != call.name.lower()]
        if len(left) == len(rules):
            return _nothing()
        nsg.properties["securityRules"] = left
        nsg.revision += 1
        self._front.shelf.put(nsg)
        return self._front.begin(call, nsg, 202, None, both=True)

    def _get_rule(self, call: Call) -> Reply:
        path = call.path if call.operation.is_list else call.path.rsplit("/", 1)[0]
        nsg = self._front.shelf.get(path.rsplit("/", 1)[0])
        if nsg is None:
            raise ApiError(404, "ResourceNotFound", f"{path} was not found.")
        rules = [self._rule(nsg, each) for each in nsg.properties.get("securityRules") or ()]
        if call.operation.is_list:
            return self._front.page(call, rules)
        for rule in rules:
            if rule["name"].lower() == call.name.lower():
                return Reply(200, rule, {"ETag": _etag(nsg)})
        raise ApiError(404, "NotFound", f"Resource {call.path} not found.")

    def _rule(self, nsg: Resource, rule: Body, place: str = "securityRules", state: str | None = None) -> Body:
        properties = dict(rule["properties"])
        for key in ("protocol", "access", "direction"):
            properties[key] = str(properties[key]).capitalize()
        lists: Body = {
            f"{end}{what}": [] for end in ("source", "destination") for what in ("PortRanges", "AddressPrefixes")
        }
        properties = {"provisioningState": state or nsg.state, **lists, **properties}
        id_ = f"{nsg.id}/{place}/{rule['name']}"
        return {"name": rule["name"], "id": id_, "etag": _etag(nsg), "type": f"{NSG}/{place}", "properties": properties}

    def _require_rule(self, given: Body, others: list[Body]) -> None:
        if not 100 <= given["priority"] <= 4096:
            raise ApiError(400, "SecurityRuleInvalidPriority", f"Security rule has priority {given['priority']}.")
        for other in others:
            if _key(other) == _key(given):
                text = "Security rules cannot have the same Priority and Direction."
                raise ApiError(400, "SecurityRuleConflict", text)
        for end in ("source", "destination"):
            groups = given.get(f"{end}ApplicationSecurityGroups") or []
            prefixes = [*(given.get(f"{end}AddressPrefixes") or ()), *filter(None, [given.get(f"{end}AddressPrefix")])]
            if bool(groups) == bool(prefixes):
                text = f"Security rule needs either {end} address prefixes or {end} application security groups."
                raise ApiError(400, "SecurityRuleParameterNotSpecified", text)
            for one in groups:
                self._require_known(one)
            for one in prefixes:
                _require_prefix(one)
            if not given.get(f"{end}PortRange") and not given.get(f"{end}PortRanges"):
                raise ApiError(400, "SecurityRuleParameterNotSpecified", f"Security rule has no {end} port range.")

    # -- public addresses, networks --

    def put_ip(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        one = self._save(call, IP, _own(call.body), old)
        if "address" not in one.facts:
            n = sum(1 for _ in self._front.shelf.every(IP))
            one.facts["address"] = call.body.get("properties", {}).get("ipAddress") or f"203.0.113.{n}"
        return self._passing(call, one, old)

    def delete_ip(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        used = self._users_of_ip(one)
        if used:
            text = f"Public IP address {one.id} can not be deleted since it is still allocated to resource {used[0]}."
            raise ApiError(400, "PublicIPAddressCannotBeDeleted", text)
        return self._front.delete_later(call, one)

    def put_vnet(self, call: Call) -> Reply:
        old, body = self._front.shelf.get(call.path), _own(call.body)
        self._require_one_writer(call.path)
        subnets = body.get("properties", {}).pop("subnets", [])
        one = self._save(call, VNET, body, old)
        for subnet in subnets:
            self._save_subnet(f"{one.id}/subnets/{subnet['name']}", subnet["name"], _own(subnet))
        return self._passing(call, one, old)

    def delete_vnet(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        subnets = list(self._front.shelf.every(SUBNET, f"{one.id}/"))
        for subnet in subnets:
            self._require_unused(subnet)
        for subnet in subnets:
            self._front.shelf.drop(subnet)
        return self._front.delete_later(call, one)

    def put_subnet(self, call: Call) -> Reply:
        vnet = self._parent(call)
        old = self._front.shelf.get(call.path)
        one = self._save_subnet(call.path, call.name, _own(call.body))
        shown = self.show(one)
        shown["properties"]["provisioningState"] = "Updating"
        return self._front.begin(call, vnet, 200 if old else 201, shown)

    def delete_subnet(self, call: Call) -> Reply:
        vnet, one = self._parent(call), self._front.shelf.get(call.path)
        if one is None:
            return _nothing()
        self._require_unused(one)
        self._front.shelf.drop(one)
        return self._front.begin(call, vnet, 202, None, both=True)

    def usages(self, call: Call) -> Reply:
        counted = {
            "NetworkInterfaces": (NIC, 65536),
            "NetworkSecurityGroups": (NSG, 5000),
            "PublicIPAddresses": (IP, 1000),
        }
        rows = [
            {
                "id": f"{call.path}/{name}",
                "currentValue": sum(1 for _ in self._front.shelf.every(type_)),
                "limit": limit,
                "unit": "Count",
                "name": {"value": name, "localizedValue": name},
            }
            for name, (type_, limit) in counted.items()
        ]
        return self._front.page(call, rows)

    def patch_tags(self, call: Call) -> Reply:
        one = self._front.require(call, f"Microsoft.Network/{call.type}")
        one.body["tags"] = dict(call.body.get("tags") or {})
        one.revision += 1
        self._front.shelf.put(one)
        return Reply(200, self.show(one))

    def _save_subnet(self, id_: str, name: str, body: Body) -> Resource:
        old = self._front.shelf.get(id_)
        properties = body.get("properties") or {}
        prefix = properties.get("addressPrefix") or next(iter(properties.get("addressPrefixes") or ()), None)
        if prefix is None:
            raise ApiError(400, "InvalidRequestFormat", f"Subnet {name} has no address prefix.")
        made = Resource(id_, SUBNET, name, {"properties": {**properties, "addressPrefix": prefix}}, time.time())
        made.inner = (
            old.inner if old else networks.create_network(self._front.account, name=id_.lower(), range=prefix).id
        )
        self._front.shelf.put(made)
        return made

    def _require_unused(self, subnet: Resource) -> None:
        used = [f"{nic.id}/ipConfigurations/{each['name']}" for nic, each in self._configs(subnet.id)]
        if used:
            text = f"Subnet {subnet.name} is in use by {used[0]} and cannot be deleted."
            raise ApiError(400, "InUseSubnetCannotBeDeleted", text)
        with suppress(SandboxError):
            networks.delete_network(self._front.account, str(subnet.inner))

    # -- the same for all --

    def _save(self, call: Call, type_: str, body: Body, old: Resource | None) -> Resource:
        if old is None:
            made = Resource(call.path, type_, call.name, body, time.time())
        else:
            old.body, old.revision, made = body, old.revision + 1, old
        self._front.shelf.put(made)
        return made

    def _passing(self, call: Call, one: Resource, old: Resource | None) -> Reply:
        """A later write supersedes an earlier one that is not done."""
        self._front.operations.supersede(one.id)
        one.state = "Updating"
        self._front.shelf.put(one)
        return self._front.begin(call, one, 200 if old else 201, self.show(one))

    def _parent(self, call: Call) -> Resource:
        path = call.path.rsplit("/", 2)[0]
        found = self._front.shelf.get(path)
        if found is None:
            raise ApiError(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        self._require_one_writer(path)
        return found

    def _require_one_writer(self, path: str) -> None:
        running: list[Pending] = self._front.operations.open_for(path)
        if running:
            text = f"Another operation on this or dependent resource is in progress: {running[0].id}."
            raise ApiError(409, "AnotherOperationInProgress", text)

    def _nics(self) -> Iterator[Resource]:
        return self._front.shelf.every(NIC)

    def _configs(self, subnet: str) -> Iterator[tuple[Resource, Body]]:
        for nic in self._nics():
            for config in nic.properties["ipConfigurations"]:
                if _is_id(config["properties"].get("subnet"), subnet):
                    yield nic, config

    def _users_of_ip(self, one: Resource) -> list[str]:
        return [
            f"{nic.id}/ipConfigurations/{config['name']}"
            for nic in self._nics()
            for config in nic.properties["ipConfigurations"]
            if _is_id(config["properties"].get("publicIPAddress"), one.id)
        ]

    def _nics_in(self, asg: Resource) -> list[str]:
        return [
            nic.id
            for nic in self._nics()
            for config in nic.properties["ipConfigurations"]
            if any(_is_id(each, asg.id) for each in config["properties"].get("applicationSecurityGroups") or ())
        ]

    def _rules_with(self, asg: Resource) -> list[str]:
        return [
            f"{nsg.id}/securityRules/{rule['name']}"
            for nsg in self._front.shelf.every(NSG)
            for rule in nsg.properties.get("securityRules") or ()
            for end in ("source", "destination")
            if any(_is_id(each, asg.id) for each in rule["properties"].get(f"{end}ApplicationSecurityGroups") or ())
        ]

    def _known(self, wanted: str) -> Resource:
        found = self._front.shelf.get(wanted)
        if found is None:
            raise bad_reference(wanted)
        return found

    def _require_known(self, reference: Mapping[str, Any] | None) -> None:
        if reference and reference.get("id"):
            self._known(reference["id"])


def shout(id_: str) -> str:
    """As ids come back in references: the name of the resource group in upper case."""
    return re.sub(r"(/resourceGroups/)([^/]+)", lambda found: found[1] + found[2].upper(), id_, flags=re.IGNORECASE)


def _nothing() -> Reply:
    return Reply(204)


def _own(body: Body) -> Body:
    """What ARM keeps of a body: its own fields come from itself."""
    return {key: one for key, one in body.items() if key not in ("id", "name", "type", "etag")}


def _etag(one: Resource) -> str:
    return f'W/"{uuid.uuid5(uuid.NAMESPACE_URL, f"{one.id.lower()}/{one.revision}/{one.state}")}"'


def _is_id(reference: Mapping[str, Any] | None, wanted: str) -> bool:
    return bool(reference) and str((reference or {}).get("id", "")).lower() == wanted.lower()


def _key(rule: Body) -> tuple[int, str]:
    return rule["priority"], str(rule["direction"]).lower()


def _default_rule(name: str, direction: str, access: str, source: str, destination: str, priority: int) -> Body:
    ports = {"sourcePortRange": "*", "destinationPortRange": "*"}
    ends = {"sourceAddressPrefix": source, "destinationAddressPrefix": destination}
    rest = {"protocol": "*", "access": access, "priority": priority, "direction": direction, "description": name}
    return {"name": name, "properties": {**ports, **ends, **rest}}


def _require_prefix(text: str) -> None:
    """Everything, a network, an address or a service tag."""
    if text == "*" or re.fullmatch(r"[A-Za-z][A-Za-z0-9.]*", text):
        return
    try:
        ipaddress.ip_network(text, strict=True)
    except ValueError:
        text = f"Security rule has invalid address prefix. Value provided: {text}"
        raise ApiError(400, "SecurityRuleInvalidAddressPrefix", text) from None


def _require_address(wanted: str, net: ipaddress.IPv4Network | ipaddress.IPv6Network) -> None:
    try:
        address = ipaddress.ip_address(wanted)
    except ValueError:
        raise ApiError(400, "InvalidIPAddress", f"{wanted} is not a valid IP address.") from None
    if address not in net:
        raise ApiError(400, "PrivateIPAddressNotInSubnet", f"Private static IP address {wanted} is not in {net}.")
    offset = int(address) - int(net.network_address)
    if offset < _RESERVED or offset == net.num_addresses - 1:
        raise ApiError(400, "PrivateIPAddressInReservedRange", f"Private IP address {wanted} is in the reserved range.")


def _free(net: ipaddress.IPv4Network | ipaddress.IPv6Network, taken: set[Any]) -> str:
    for offset in range(_RESERVED, net.num_addresses - 1):
        if str(net[offset]) not in taken:
            return str(net[offset])
    raise ApiError(400, "SubnetIsFull", f"Subnet with prefix {net} does not have enough capacity for 1 IP address.")
