"""What the resources of Compute Engine are and do: instances on hosts of the datacenter, disks, snapshots, images,
placement policies, sole-tenant nodes, firewalls, addresses and networks. A handler is named after its method, such as
`insert_disks` for disks.insert; `any_…` serve all kinds.

Availability domain k of a zone is its k-th rack. A node group takes whole hosts of its zone, the last ones first."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.sandbox import networks, quotas, server_groups, vms
from coterie.sandbox.errors import NoSuch, SandboxError
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.gcp.call import REGION, Call, moment
from coterie.sandbox.fronts.gcp.refusals import (
    ApiError,
    already_exists,
    in_use,
    invalid,
    not_found,
    over_quota,
    stale,
    translate,
)
from coterie.sandbox.fronts.gcp.shelf import Resource, Row
from coterie.sandbox.fronts.http_server import Reply
from coterie.sandbox.hosts import all_hosts
from coterie.sandbox.nics import NicRequest

if TYPE_CHECKING:
    from coterie.sandbox.fronts.gcp.front import Front

# name → cpu, MiB
TYPES = {
    "f1-micro": (1, 614),
    "e2-small": (2, 2048),
    "n2-standard-2": (2, 8192),
    "n2-standard-4": (4, 16_384),
    "n2-standard-8": (8, 32_768),
    "n2-standard-16": (16, 65_536),
    "m2-ultramem-416": (416, 11_923_456),
}
_CUSTOM = re.compile(r"(?:\w+-)?custom-(\d+)-(\d+)")
_LABEL_KEY, _LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_METADATA, _TAGS, _DOMAINS, _DISK_MB = 256 * 1024, 64, 8, 10_240
_GROUP = "compute.googleapis.com/node-group-name"
_STATES = {"disks": "READY", "snapshots": "READY", "images": "READY", "resourcePolicies": "READY"}
_SINGLE = {"resourcePolicies": "resourcePolicy", "addresses": "address"}
_PUBLIC = "projects/debian-cloud/global/images/family/debian-12"


class Compute:
    def __init__(self, front: Front) -> None:
        self._front = front
        self._account = front.account
        self.objects: dict[tuple[str, str], tuple[bytes, Row]] = {}  # of Cloud Storage: (bucket, name) → data, metadata
        self.leaves_disks = False  # whether an instance that fails leaves its disks

    def furnish(self) -> None:
        """The network and subnetwork that are there from the beginning. What was half done when the front ended is
        finished."""
        if not self._front.shelf.get("global/networks/default"):
            self._put("global/networks/default", {"autoCreateSubnetworks": False})
            range_ = {"network": self._front.link("global/networks/default")}
            range_["ipCidrRange"] = self._front.settings.address_prefix
            self._put(f"regions/{REGION}/subnetworks/default", range_, inner="default")
        for one in self._front.shelf.every_one():
            if one.row.get("status") in ("STOPPING", "DELETING"):
                self._front.shelf.drop(one)

    def zones(self) -> list[str]:
        return sorted({host.zone for host in all_hosts(self._account.datacenter.store)})

    def fixed(self, kind: str) -> list[Resource]:
        """What is there without being made."""
        rows: list[tuple[str, Row]]
        if kind == "zones":
            found = [(f"zones/{zone}", {"region": self._front.link(f"regions/{REGION}")}) for zone in self.zones()]
            rows = [(path, {**row, "status": "UP"}) for path, row in found]
        elif kind == "regions":
            links = [self._front.link(f"zones/{zone}") for zone in self.zones()]
            rows = [(f"regions/{REGION}", {"zones": links, "status": "UP", "quotas": self._quotas()})]
        elif kind == "machineTypes":
            rows = [
                (f"zones/{zone}/machineTypes/{name}", {"guestCpus": cpu, "memoryMb": ram})
                for zone in self.zones()
                for name, (cpu, ram) in TYPES.items()
            ]
        else:
            return []
        return [Resource(path, self._full(path, row, 0.0), 0.0) for path, row in rows]

    def require_place(self, call: Call) -> None:
        for word, known in (("zone", self.zones()), ("region", [REGION])):
            if word in call.names and call.names[word] not in known:
                raise not_found(f"projects/{self._front.project}/{word}s/{call.names[word]}")

    def show(self, one: Resource) -> Row:
        if one.kind == "disks":
            return {**one.row, "users": [self._front.link(vm.path) for vm in self._holders(one)]}
        return one.row

    # -- any kind --

    def any_insert(self, call: Call) -> Reply:
        kind = call.method.kind
        path = f"{call.path}/{call.body['name']}"
        self._require_new(path)
        self._require_labels(call.body.get("labels"))
        check: Callable[[Call], Row] | None = getattr(self, f"_new_{kind}", None)
        more = check(call) if check else {}
        made = self._put(path, {**call.body, **more})
        if kind in _STATES:
            made.row["status"] = "CREATING"

        def end() -> None:
            if kind in _STATES and made.row["status"] == "CREATING":
                made.row["status"] = _STATES[kind]
                self._front.shelf.put(made)

        return self._front.begin(call, path, end)

    def any_delete(self, call: Call) -> Reply:
        one = self._front.require(call.path)
        user = self._user_of(one)
        if user:
            raise self._in_use(one, user)
        if one.kind == "subnetworks" and one.inner:
            networks.delete_network(self._account, one.inner)
        if one.kind == "nodeGroups" and one.inner:
            server_groups.delete_server_group(self._account, one.inner)
        if "status" in one.row:
            one.row["status"] = "DELETING"
        if one.kind not in ("disks", "snapshots", "images"):
            self._front.shelf.drop(one)
            return self._front.begin(call, one.path)
        return self._front.begin(call, one.path, lambda: self._front.shelf.drop(one))

    def any_setLabels(self, call: Call) -> Reply:
        one = self._front.require(call.path.rpartition("/")[0])
        if call.body.get("labelFingerprint") != one.row.get("labelFingerprint"):
            raise stale()
        self._require_labels(call.body.get("labels"))
        one.row["labels"] = dict(call.body.get("labels") or {})
        self._touch(one)
        return self._front.begin(call, one.path, at_once=True)

    def any_patch(self, call: Call) -> Reply:
        one = self._front.require(call.path)
        if one.kind == "firewalls":
            self._check_firewall({**one.row, **call.body})
        one.row |= call.body
        self._touch(one)
        return self._front.begin(call, one.path)

    def update_firewalls(self, call: Call) -> Reply:
        one = self._front.require(call.path)
        self._check_firewall(call.body)
        one.row = self._full(one.path, call.body, one.created) | {"id": one.row["id"]}
        self._touch(one)
        return self._front.begin(call, one.path)

    def get_regions(self, call: Call) -> Reply:
        return self._fixed(call)

    get_zones = get_machineTypes = get_regions

    def _fixed(self, call: Call) -> Reply:
        for one in self.fixed(call.method.kind):
            if one.path == call.path:
                return Reply(200, one.row)
        raise not_found(f"projects/{self._front.project}/{call.path}")

    def get_projects(self, call: Call) -> Reply:
        used, limit = len(list(self._front.shelf.every("firewalls"))), float(self._front.settings.firewalls)
        quota = {"metric": "FIREWALLS", "limit": limit, "usage": float(used)}
        row = {"kind": "compute#project", "id": "4242424242", "name": self._front.project, "quotas": [quota]}
        return Reply(200, row)

    # -- disks, snapshots, images --

    def _new_disks(self, call: Call) -> Row:
        given = call.body
        self._zone_of_type(given.get("type"), call.scope)
        size = int(given.get("sizeGb") or 10)
        if not 1 <= size <= 65_536:
            raise invalid(f"Invalid value for field 'resource.sizeGb': '{size}'.")
        kind = given.get("type") or f"{call.scope}/diskTypes/pd-standard"
        return {"sizeGb": str(size), "type": self._front.link(self._front.path_of(kind)), "zone": self._here(call)}

    def _new_snapshots(self, call: Call) -> Row:
        source = self._front.require(self._front.path_of(call.body["sourceDisk"]))
        return {"diskSizeGb": source.row["sizeGb"], "sourceDisk": self._front.link(source.path)}

    def _new_images(self, call: Call) -> Row:
        given = call.body
        raw = (given.get("rawDisk") or {}).get("source")
        sources = [one for one in (raw, given.get("sourceImage"), given.get("sourceDisk")) if one]
        if len(sources) != 1:
            raise invalid("Invalid value for field 'resource': exactly one source is needed.")
        if raw is None:
            self._require_image(sources[0])
            return {"diskSizeGb": "10"}
        bucket, _, name = raw.removeprefix("https://storage.googleapis.com/").partition("/")
        if (bucket, name) not in self.objects:
            raise ApiError(400, "invalid", f"The referenced object {raw} is not there", "RESOURCE_NOT_FOUND")
        return {"diskSizeGb": str(_disk_gib(self.objects[bucket, name][0])), "archiveSizeBytes": "1"}

    def getIamPolicy_images(self, call: Call) -> Reply:
        one = self._front.require(call.path.rpartition("/")[0])
        policy = one.facts.get("policy") or {}
        return Reply(200, {"version": 1, **policy, "etag": _digest(policy)})

    def setIamPolicy_images(self, call: Call) -> Reply:
        one = self._front.require(call.path.rpartition("/")[0])
        given = call.body.get("policy") or {"bindings": call.body.get("bindings") or []}
        if given.get("etag") not in (None, _digest(one.facts.get("policy") or {})):
            raise stale()
        one.facts["policy"] = {key: value for key, value in given.items() if key != "etag"}
        self._front.shelf.put(one)
        return self.getIamPolicy_images(call)

    def resize_disks(self, call: Call) -> Reply:
        one = self._front.require(call.path.rpartition("/")[0])
        size = int(call.body["sizeGb"])
        if size <= int(one.row["sizeGb"]):
            raise invalid(f"Invalid value for field 'sizeGb': '{size}'. New disk size must be larger.")
        one.row["sizeGb"] = str(size)
        self._touch(one)
        return self._front.begin(call, one.path)

    def update_disks(self, call: Call) -> Reply:
        one = self._front.require(call.path)
        changed = {
            key: value for key, value in call.body.items() if key in ("provisionedIops", "provisionedThroughput")
        }
        if not changed or set(call.query.get("updateMask", "").split(",")) != set(changed):
            raise invalid("Invalid value for field 'updateMask': it names other fields than the body.")
        one.row |= {key: str(value) for key, value in changed.items()}
        self._touch(one)
        return self._front.begin(call, one.path)

    # -- policies, nodes, firewalls, addresses, networks --

    def _new_resourcePolicies(self, call: Call) -> Row:
        placement = call.body.get("groupPlacementPolicy")
        if placement is not None:
            count = placement.get("availabilityDomainCount")
            if count is not None and not 1 <= count <= _DOMAINS:
                raise invalid(f"Invalid value for field 'availabilityDomainCount': '{count}'.")
            if count is not None and placement.get("collocation") == "COLLOCATED":
                raise invalid("A placement policy spreads or collocates, never both.")
        if len(list(self._front.shelf.every("resourcePolicies"))) >= self._front.settings.policies:
            raise over_quota("RESOURCE_POLICIES", float(self._front.settings.policies), REGION)
        return {"region": self._front.link(f"regions/{REGION}")}

    def _new_nodeTemplates(self, call: Call) -> Row:
        return {"status": "READY"}

    def insert_nodeGroups(self, call: Call) -> Reply:
        """Whole hosts of the zone, the last by name first."""
        path, zone = f"{call.path}/{call.body['name']}", call.names["zone"]
        self._require_new(path)
        taken = {name for one in self._front.shelf.every("nodeGroups") for name in one.facts["hosts"]}
        free = [one.name for one in all_hosts(self._account.datacenter.store) if one.zone == zone]
        hosts = sorted(set(free) - taken, reverse=True)[: int(call.query.get("initialNodeCount") or 0)]
        group = server_groups.create_server_group(
            self._account, name=call.body["name"], policy="host-affinity", hosts=hosts
        )
        made = self._put(path, {**call.body, "size": len(hosts), "status": "READY", "zone": self._here(call)}, group.id)
        made.facts["hosts"] = hosts
        self._front.shelf.put(made)
        return self._front.begin(call, path)

    def listNodes_nodeGroups(self, call: Call) -> Reply:
        one = self._front.require(call.path.rpartition("/")[0])
        on = {host: [vm for vm in self._instances() if vm.facts.get("host") == host] for host in one.facts["hosts"]}
        nodes = [
            {"name": host, "status": "READY", "instances": [self._front.link(vm.path) for vm in held]}
            for host, held in on.items()
        ]
        return Reply(200, {"items": nodes})

    def _new_firewalls(self, call: Call) -> Row:
        self._check_firewall(call.body)
        if len(list(self._front.shelf.every("firewalls"))) >= self._front.settings.firewalls:
            raise over_quota("FIREWALLS", float(self._front.settings.firewalls), "global")
        network = call.body.get("network") or "global/networks/default"
        self._front.require(self._front.path_of(network))
        row: Row = {"network": self._front.link(self._front.path_of(network))}
        return {"direction": "INGRESS", "priority": 1000, "disabled": False, **call.body, **row}

    def _check_firewall(self, row: Row) -> None:
        if bool(row.get("allowed")) == bool(row.get("denied")):
            raise invalid("Invalid value for field 'resource': exactly one of allowed and denied is needed.")
        if row.get("direction") == "EGRESS" and (row.get("sourceTags") or row.get("sourceRanges")):
            raise invalid("Invalid value for field 'resource.sourceRanges': an egress rule has none.")
        if row.get("direction") != "EGRESS" and row.get("destinationRanges") and row.get("sourceTags"):
            raise invalid("Invalid value for field 'resource.destinationRanges'.")
        families = set()
        for text in (*(row.get("sourceRanges") or ()), *(row.get("destinationRanges") or ())):
            try:
                families.add(ipaddress.ip_network(text).version)
            except ValueError:
                raise invalid(f"Invalid value for field 'resource.sourceRanges[0]': '{text}'.") from None
        if len(families) > 1:
            raise invalid("Invalid value for field 'resource.sourceRanges': IPv4 and IPv6 cannot be mixed.")
        for rule in (*(row.get("allowed") or ()), *(row.get("denied") or ())):
            if rule.get("ports") and rule.get("IPProtocol") not in ("tcp", "udp", "sctp", "6", "17"):
                raise invalid("Invalid value for field 'ports': this protocol has none.")
        if not 0 <= int(row.get("priority", 1000)) <= 65_535:
            raise invalid("Invalid value for field 'resource.priority'.")
        for tags in (row.get("sourceTags"), row.get("targetTags")):
            self._require_tags(tags or [])

    def _new_addresses(self, call: Call) -> Row:
        number = len(list(self._front.shelf.every("addresses"))) + 1
        return {"address": call.body.get("address") or f"198.51.100.{number}", "status": "RESERVED", "users": []}

    def _new_subnetworks(self, call: Call) -> Row:
        network = self._front.require(self._front.path_of(call.body["network"]))
        range_ = ipaddress.ip_network(call.body["ipCidrRange"])
        for other in self._front.shelf.every("subnetworks"):
            if other.inner != "default" and range_.overlaps(ipaddress.ip_network(other.row["ipCidrRange"])):
                raise invalid(f"Invalid IPCidrRange: {range_} conflicts with existing subnetwork '{other.name}'.")
        made = networks.create_network(self._account, name=call.body["name"], range=str(range_))
        gateway, region = str(next(range_.hosts())), self._front.link(f"regions/{REGION}")
        return {
            "network": self._front.link(network.path),
            "gatewayAddress": gateway,
            "region": region,
            "_inner": made.id,
        }

    def testIamPermissions_subnetworks(self, call: Call) -> Reply:
        """What was granted on the subnetwork itself."""
        one = self._front.require(call.path.rpartition("/")[0])
        return Reply(
            200, {"permissions": [each for each in call.body["permissions"] if each in one.facts.get("granted", ())]}
        )

    # -- instances --

    def insert_instances(self, call: Call) -> Reply:
        path = f"{call.path}/{call.body['name']}"
        self._require_new(path)
        policy, demand, group = self._check_instance(call)
        made = self._put(path, {**call.body, "status": "PROVISIONING", "zone": self._here(call)})
        try:
            self._boot(made, demand, group)
        except SandboxError as refusal:
            error = translate(refusal, REGION)
            self._front.shelf.drop(made)
            if self.leaves_disks:
                self._own_disks(made)
            if error.reason == "rateLimitExceeded":
                raise error from refusal
            return self._front.begin(call, path, error=error)
        if policy:
            made.row["resourcePolicies"] = [self._front.link(policy.path)]
        made.row |= {"tags": {**(call.body.get("tags") or {})}, "metadata": {**(call.body.get("metadata") or {})}}
        self._own_disks(made)
        self._touch(made)

        def end() -> None:
            if made.row["status"] == "PROVISIONING":
                made.row["status"] = "RUNNING"
                self._front.shelf.put(made)

        return self._front.begin(call, path, end)

    def _check_instance(self, call: Call) -> tuple[Resource | None, Demand, str | None]:
        given, zone = call.body, call.names["zone"]
        cpu, ram = self._size(self._front.path_of(given["machineType"]), zone)
        self._require_labels(given.get("labels"))
        self._require_tags((given.get("tags") or {}).get("items") or [])
        for item in (given.get("metadata") or {}).get("items") or []:
            if len(item.get("value", "").encode()) > _METADATA:
                raise invalid(f"Value for metadata key '{item['key']}' is too large: maximum size {_METADATA}")
        self._check_disks(call)
        for nic in given["networkInterfaces"]:
            subnet = self._subnet(nic)
            ip = nic.get("networkIP")
            if ip and ipaddress.ip_address(ip) not in ipaddress.ip_network(subnet.row["ipCidrRange"]):
                raise invalid(f"Invalid value for field 'networkIP': '{ip}'. It is not in {subnet.row['ipCidrRange']}.")
            for config in nic.get("accessConfigs") or ():
                self._check_public(config.get("natIP"))
        schedule = given.get("scheduling") or {}
        policies = [self._front.require(self._front.path_of(one)) for one in given.get("resourcePolicies") or ()]
        affinities = schedule.get("nodeAffinities") or ()
        if len(policies) > 1 or (policies and affinities):
            raise invalid("An instance has one placement policy, and none on sole-tenant nodes.")
        policy = policies[0] if policies else None
        rack = self._rack(policy, zone, schedule.get("availabilityDomain"))
        return policy, Demand(cpu, ram, _DISK_MB, zone, rack), self._node_group(affinities, zone)

    def _check_disks(self, call: Call) -> None:
        names = set()
        boot = [one for one in call.body["disks"] if one.get("boot")]
        if len(boot) != 1:
            raise invalid("Invalid value for field 'resource.disks': one boot disk is needed.")
        for disk in call.body["disks"]:
            params = disk.get("initializeParams")
            if params is None:
                self._front.require(self._front.path_of(disk.get("source", "")))
                continue
            name = params.get("diskName") or call.body["name"]
            if not _NAME.fullmatch(name):
                raise invalid(f"Invalid value for field 'resource.disks[0].initializeParams.diskName': '{name}'.")
            self._require_new(f"{call.scope}/disks/{name}")
            names.add(name)
            self._require_labels(params.get("labels"))
            self._zone_of_type(params.get("diskType"), call.scope)
            if disk.get("boot"):
                self._require_image(params.get("sourceImage", ""))

    def _boot(self, one: Resource, demand: Demand, group: str | None) -> None:
        given = one.row
        nics = [
            NicRequest(f"nic{n}", str(self._subnet(nic).inner), nic.get("networkIP"), f"nic{n}")
            for n, nic in enumerate(given["networkInterfaces"])
        ]
        items = {item["key"]: item.get("value", "") for item in (given.get("metadata") or {}).get("items") or ()}
        made = vms.create_vm(
            self._account,
            name=one.name,
            size=demand,
            image="image",
            shared_image=True,
            nics=nics,
            group=group,
            user_data=items.get("user-data", ""),
            tags=given.get("labels") or {},
        )
        one.inner = made.id
        one.facts |= {"host": made.host}
        ips = {nic.label: nic.ip for nic in made.nics}
        for n, nic in enumerate(given["networkInterfaces"]):
            subnet = self._subnet(nic)
            own = {"name": f"nic{n}", "networkIP": ips[f"nic{n}"], "subnetwork": self._front.link(subnet.path)}
            nic |= {**own, "network": subnet.row["network"]}
            for config in nic.get("accessConfigs") or ():
                self._use_address(config.get("natIP"), one)
        schedule = {"onHostMaintenance": "MIGRATE", "automaticRestart": True, **(given.get("scheduling") or {})}
        given["scheduling"] = schedule
        status: Row = {"scheduling": {}}
        if given.get("resourcePolicies"):
            rack = next(host.rack for host in all_hosts(self._account.datacenter.store) if host.name == made.host)
            one.facts["domain"] = self._racks(str(demand.zone)).index(rack) + 1
            status["scheduling"]["availabilityDomain"] = one.facts["domain"]
        if schedule.get("exposeHostTopology"):
            host = hashlib.sha256(str(made.host).encode()).hexdigest()[:32]
            status["physicalHostTopology"] = {"host": host}
        given["resourceStatus"] = status

    def _own_disks(self, one: Resource) -> None:
        """The disks that come with it, and those that were named."""
        for n, disk in enumerate(one.row["disks"]):
            params = disk.pop("initializeParams", None)
            if params is not None:
                name = params.get("diskName") or one.name
                path, size = f"{one.scope}/disks/{name}", str(params.get("diskSizeGb") or 10)
                row = {"labels": params.get("labels") or {}, "sizeGb": size, "zone": one.row["zone"]}
                kind = self._front.path_of(params.get("diskType") or f"{one.scope}/diskTypes/pd-standard")
                self._put(path, {**row, "type": self._front.link(kind), "status": "READY"})
                disk["source"] = self._front.link(path)
            disk["source"] = self._front.link(self._front.path_of(disk["source"]))
            disk.setdefault("deviceName", f"persistent-disk-{n}")
            disk.setdefault("autoDelete", False)
            disk["index"] = n

    def delete_instances(self, call: Call) -> Reply:
        one = self._front.require(call.path)
        if one.row.get("deletionProtection"):
            text = (
                f"Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion: {one.path}'"
            )
            raise ApiError(400, "invalid", text)
        already = one.row["status"] == "STOPPING"
        one.row["status"] = "STOPPING"
        self._front.shelf.put(one)
        if already:
            error = not_found(f"projects/{self._front.project}/{one.path}")
            return self._front.begin(call, one.path, error=error)
        return self._front.begin(call, one.path, lambda: self.remove(one))

    def remove(self, one: Resource) -> None:
        if one.inner:
            with suppress(NoSuch):
                vms.delete_vm(self._account, one.inner)
        self._front.shelf.drop(one)
        for disk in one.row["disks"]:
            found = self._front.shelf.get(self._front.path_of(disk["source"]))
            if found and disk.get("autoDelete"):
                self._front.shelf.drop(found)
        for address in self._front.shelf.every("addresses"):
            if self._front.link(one.path) in address.row["users"]:
                address.row |= {"users": [], "status": "RESERVED"}
                self._front.shelf.put(address)

    def attachDisk_instances(self, call: Call) -> Reply:
        one, given = self._machine(call), dict(call.body)
        disk = self._front.require(self._front.path_of(given["source"]))
        holders = self._holders(disk)
        if holders:
            raise in_use(
                f"projects/{self._front.project}/{disk.path}", f"projects/{self._front.project}/{holders[0].path}"
            )
        if disk.scope != one.scope:
            raise invalid(f"Invalid value for field 'resource.source': the disk is in {disk.scope}.")
        name = given.get("deviceName") or disk.name
        if any(each["deviceName"] == name for each in one.row["disks"]):
            raise invalid(f"Invalid value for field 'resource.deviceName': '{name}' is used already.")
        entry = {"autoDelete": False, "mode": "READ_WRITE", **given, "deviceName": name, "type": "PERSISTENT"}
        one.row["disks"].append({**entry, "source": self._front.link(disk.path), "index": len(one.row["disks"])})
        self._touch(one)
        return self._front.begin(call, one.path)

    def detachDisk_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        left = [each for each in one.row["disks"] if each["deviceName"] != call.query.get("deviceName")]
        if len(left) == len(one.row["disks"]):
            raise invalid(f"Invalid value for field 'disk': no attached disk '{call.query.get('deviceName')}'.")
        one.row["disks"] = left
        self._touch(one)
        return self._front.begin(call, one.path)

    def reset_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        if one.row["status"] != "RUNNING":
            raise ApiError(400, "resourceNotReady", f"The resource '{one.path}' is not ready")
        vms.reboot_vm(self._account, str(one.inner))
        return self._front.begin(call, one.path)

    def start_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        vms.start_vm(self._account, str(one.inner))
        return self._become(call, one, "RUNNING")

    def stop_instances(self, call: Call) -> Reply:
        return self._become(call, self._machine(call), "TERMINATED")

    def suspend_instances(self, call: Call) -> Reply:
        return self._become(call, self._machine(call), "SUSPENDED")

    def resume_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        if one.row["status"] != "SUSPENDED":
            raise ApiError(400, "resourceNotReady", f"The resource '{one.path}' is not suspended")
        return self._become(call, one, "RUNNING")

    def setTags_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        if call.body.get("fingerprint") != one.row["tags"]["fingerprint"]:
            raise stale()
        self._require_tags(call.body.get("items") or [])
        one.row["tags"] = {"items": list(call.body.get("items") or [])}
        self._touch(one)
        return self._front.begin(call, one.path)

    def setMetadata_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        if call.body.get("fingerprint") != one.row["metadata"]["fingerprint"]:
            raise stale()
        one.row["metadata"] = {"items": list(call.body.get("items") or [])}
        self._touch(one)
        return self._front.begin(call, one.path)

    def setDeletionProtection_instances(self, call: Call) -> Reply:
        one = self._machine(call)
        one.row["deletionProtection"] = call.query.get("deletionProtection", "true") == "true"
        return self._become(call, one, one.row["status"])

    def addResourcePolicies_instances(self, call: Call) -> Reply:
        """Of a placement policy: only while the instance is stopped."""
        one = self._machine(call)
        if one.row["status"] != "TERMINATED":
            raise invalid("Placement policies are added to stopped instances only.")
        policies = [self._front.require(self._front.path_of(each)) for each in call.body["resourcePolicies"]]
        one.row["resourcePolicies"] = [self._front.link(each.path) for each in policies]
        return self._become(call, one, one.row["status"])

    def _become(self, call: Call, one: Resource, status: str) -> Reply:
        one.row["status"] = status
        self._touch(one)
        return self._front.begin(call, one.path)

    # -- what they share --

    def _machine(self, call: Call) -> Resource:
        return self._front.require(call.path.rpartition("/")[0])

    def _instances(self) -> list[Resource]:
        return list(self._front.shelf.every("instances"))

    def _holders(self, disk: Resource) -> list[Resource]:
        link = self._front.link(disk.path)
        return [vm for vm in self._instances() if any(one.get("source") == link for one in vm.row["disks"])]

    def _user_of(self, one: Resource) -> str | None:
        """The path of something that keeps it from being deleted."""
        link = self._front.link(one.path)
        if one.kind == "disks":
            return next((vm.path for vm in self._holders(one)), None)
        for vm in self._instances():
            nics = vm.row["networkInterfaces"]
            named = {*(vm.row.get("resourcePolicies") or ()), *(nic.get("subnetwork") for nic in nics)}
            if link in named or (one.kind == "nodeGroups" and vm.facts.get("host") in one.facts["hosts"]):
                return vm.path
        if one.kind == "networks":
            users = (*self._front.shelf.every("subnetworks"), *self._front.shelf.every("firewalls"))
            return next((user.path for user in users if user.row.get("network") == link), None)
        return None

    def _in_use(self, one: Resource, user: str) -> ApiError:
        below = f"projects/{self._front.project}"
        return in_use(f"{below}/{one.path}", f"{below}/{user}")

    def _put(self, path: str, row: Row, inner: str | None = None) -> Resource:
        now = time.time()
        made = Resource(path, self._full(path, row, now), now, inner or row.get("_inner"))
        made.row.pop("_inner", None)
        self._touch(made)
        return made

    def _full(self, path: str, row: Row, at: float) -> Row:
        kind, name = path.split("/")[-2:]
        digits = int.from_bytes(hashlib.sha256(f"{path}/{at}".encode()).digest()[:7], "big")
        single = _SINGLE.get(kind, kind.rstrip("s"))
        own = {"kind": f"compute#{single}", "id": str(digits), "name": name, "selfLink": self._front.link(path)}
        return {**row, **own, "creationTimestamp": moment(at)}

    def _touch(self, one: Resource) -> None:
        """New fingerprints, by what they stand for."""
        if one.kind in ("instances", "disks", "snapshots", "images", "addresses"):
            one.row["labelFingerprint"] = _digest(one.row.get("labels"))
        if one.kind == "instances":
            for part in ("tags", "metadata"):
                one.row.setdefault(part, {})
                one.row[part]["fingerprint"] = _digest(one.row[part].get("items"))
            one.row["fingerprint"] = _digest({key: value for key, value in one.row.items() if key != "fingerprint"})
        self._front.shelf.put(one)

    def _here(self, call: Call) -> str:
        return self._front.link(call.scope)

    def _require_new(self, path: str) -> None:
        if self._front.shelf.get(path):
            raise already_exists(f"projects/{self._front.project}/{path}")

    def _require_labels(self, labels: Mapping[str, str] | None) -> None:
        for key, value in (labels or {}).items():
            if not _LABEL_KEY.fullmatch(key) or not _LABEL.fullmatch(value):
                raise invalid(f"Invalid value for field 'labels': '{key}: {value}'.")
        if len(labels or {}) > 64:
            raise invalid("Invalid value for field 'labels': more than 64.")

    def _require_tags(self, tags: list[str]) -> None:
        if len(tags) > _TAGS or len(set(tags)) < len(tags):
            raise invalid(f"Invalid value for field 'tags': more than {_TAGS}, or one twice.")
        for tag in tags:
            if not _NAME.fullmatch(tag):
                raise invalid(f"Invalid value for field 'tags.items[0]': '{tag}'.")

    def _require_image(self, reference: str) -> None:
        path = self._front.path_of(reference)
        if path.startswith("projects/"):
            if path != _PUBLIC:
                raise not_found(path)
        else:
            self._front.require(path)

    def _zone_of_type(self, reference: str | None, scope: str) -> None:
        path = self._front.path_of(reference or f"{scope}/diskTypes/pd-standard")
        if not re.fullmatch(rf"{scope}/diskTypes/(pd-(standard|balanced|ssd|extreme)|hyperdisk-\w+)", path):
            raise invalid(f"Invalid value for field 'type': '{reference}'.")

    def _size(self, path: str, zone: str) -> tuple[int, int]:
        name = path.rpartition("/")[2]
        custom = _CUSTOM.fullmatch(name)
        if path != f"zones/{zone}/machineTypes/{name}" or not (custom or name in TYPES):
            raise ApiError(400, "invalid", f"Invalid value for field 'resource.machineType': '{path}' does not exist.")
        return (int(custom[1]), int(custom[2])) if custom else TYPES[name]

    def _subnet(self, nic: Row) -> Resource:
        if nic.get("subnetwork"):
            return self._front.require(self._front.path_of(nic["subnetwork"]))
        network = self._front.require(self._front.path_of(nic.get("network") or "global/networks/default"))
        for one in self._front.shelf.every("subnetworks"):
            if one.row["network"] == self._front.link(network.path):
                return one
        raise invalid("Invalid value for field 'networkInterfaces[0]': the network has no subnetwork here.")

    def _check_public(self, ip: str | None) -> None:
        """None is an ephemeral one."""
        found = [one for one in self._front.shelf.every("addresses") if one.row["address"] == ip]
        if ip and (not found or found[0].row["users"]):
            raise invalid(f"Invalid value for field 'natIP': '{ip}'. The IP must be reserved, and used by nothing.")

    def _use_address(self, ip: str | None, one: Resource) -> None:
        for address in self._front.shelf.every("addresses"):
            if ip and address.row["address"] == ip:
                address.row |= {"users": [self._front.link(one.path)], "status": "IN_USE"}
                self._front.shelf.put(address)

    def _racks(self, zone: str) -> list[str]:
        return sorted({host.rack for host in all_hosts(self._account.datacenter.store) if host.zone == zone})

    def _rack(self, policy: Resource | None, zone: str, domain: int | None) -> str | None:
        """Of a spread policy: the domain that was named, or the one with the fewest members."""
        count = ((policy.row.get("groupPlacementPolicy") or {}) if policy else {}).get("availabilityDomainCount")
        if domain is not None and (count is None or not 1 <= domain <= count):
            raise invalid(f"Invalid value for field 'scheduling.availabilityDomain': '{domain}'.")
        if policy is None or count is None:
            return None
        racks = self._racks(zone)
        if domain is not None:
            if domain > len(racks):
                text = f"The zone {zone} does not have enough resources available for the placement policy."
                raise ApiError(503, "backendError", text, "ZONE_RESOURCE_POOL_EXHAUSTED")
            return racks[domain - 1]
        link = self._front.link(policy.path)
        members = [vm for vm in self._instances() if vm.scope == f"zones/{zone}"]
        held = Counter(vm.facts.get("domain") for vm in members if link in (vm.row.get("resourcePolicies") or ()))
        return min(enumerate(racks[:count], 1), key=lambda each: (held[each[0]], each[0]))[1]

    def _node_group(self, affinities: Any, zone: str) -> str | None:
        for one in affinities:
            if one.get("key") == _GROUP and one.get("operator") == "IN":
                found = self._front.shelf.get(f"zones/{zone}/nodeGroups/{one['values'][0]}")
                if found is None:
                    text = "No feasible nodes found for the instance given its node affinities."
                    raise ApiError(400, "invalid", text, "NO_AVAILABLE_NODE")
                return found.inner
        return None

    def _quotas(self) -> list[Row]:
        known = quotas.get_quotas(self._account)
        shown = [("INSTANCES", known["instances"]), ("CPUS", known["cpu"])]
        rows: list[Row] = [
            {
                "metric": metric,
                "limit": float(1_000_000 if one.ceiling is None else one.ceiling),
                "usage": float(one.used),
            }
            for metric, one in shown
        ]
        used = len(list(self._front.shelf.every("resourcePolicies")))
        limit = float(self._front.settings.policies)
        return [*rows, {"metric": "RESOURCE_POLICIES", "limit": limit, "usage": float(used)}]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _disk_gib(archive: bytes) -> int:
    """Of the disk in a tar.gz: one member named disk.raw, whole GiB long; a sparse one tells its real size apart."""
    import zlib

    try:
        head = zlib.decompressobj(31).decompress(archive, 512)
    except zlib.error:
        raise invalid("The tar archive is not valid: it is no gzip file.") from None
    if head[:8].rstrip(b"\0") != b"disk.raw":
        raise invalid("The tar archive is not valid: it holds no disk.raw.")
    field = head[483:495] if head[156:157] == b"S" else head[124:136]
    size = int.from_bytes(field[1:], "big") if field[:1] == b"\x80" else int(field.strip(b" \0") or b"0", 8)
    if size == 0 or size % 2**30:
        raise invalid("The disk in the archive is no whole number of GiB.")
    return size // 2**30
