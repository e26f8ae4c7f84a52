"""A bed on the sandbox's Azure: the driver through azure-identity and ARM's REST, over HTTP, to the strict front. The
operator is another client of the same API."""

from __future__ import annotations

import http.client
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.contract import EVERY_SOURCE, KEEP, Cpi, GroupResource, Json, Kind, Networks, Reason, Runtime
from coterie.cpi.drivers.azure.driver import AzureCpi
from coterie.cpi.drivers.azure.machines import Machines
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.azure.call import LOCATION, Settings
from coterie.sandbox.fronts.azure.certificate import write_certificate
from coterie.sandbox.fronts.azure.front import Front, Trick
from coterie.sandbox.fronts.azure.server import Identity, Server
from coterie.sandbox.fronts.azure.shelf import Resource
from peers.foreign import SmallBed
from peers.sandbox_bed import _ledger

SUBSCRIPTION = "6f1c1d2e-0000-4000-8000-00000000c0de"
TENANT = "11111111-2222-3333-4444-555555555555"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO kit"
GROUP = "machines"
_TYPES: dict[str, str] = {
    "vm": "Microsoft.Compute/virtualMachines",
    "disk": "Microsoft.Compute/disks",
    "snapshot": "Microsoft.Compute/snapshots",
    "image": "Microsoft.Compute/images",
    "server_group": "Microsoft.Compute/availabilitySets",
    "scale_set": "Microsoft.Compute/virtualMachineScaleSets",
    "security_group": "Microsoft.Network/networkSecurityGroups",
    "port": "Microsoft.Network/networkInterfaces",
    "label": "Microsoft.Network/applicationSecurityGroups",
}
_VERSIONS = {"Microsoft.Network": "2024-05-01", "Microsoft.Compute": "2024-03-01"}
_DISKS = ("Microsoft.Compute/disks", "Microsoft.Compute/snapshots")
# contract method → what the driver sends for it
_CALLS = {
    "create_vm": ("PUT", "virtualMachines"),
    "delete_vm": ("DELETE", "virtualMachines"),
    "create_disk": ("PUT", "disks"),
    "create_server_group": ("PUT", "availabilitySets"),
}
_FLEXIBLE = {"orchestrationMode": "Flexible", "platformFaultDomainCount": 1, "singlePlacementGroup": False}


@cache
def certificate() -> Path:
    return write_certificate(Path(tempfile.mkdtemp(prefix="coterie-azure-")) / "loopback.pem")


class Peer:
    """The front with both of its listeners: ARM over plain HTTP, tokens over TLS."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        datacenter = open_datacenter(folder / "sandbox.db")
        settings = settings or Settings(address_prefix="127.0.0.0/8", nic_reservation_s=0.3)
        self.front = Front(open_account(datacenter, "kit"), SUBSCRIPTION, GROUP, settings)
        self.identity = Identity(TENANT, "kit-client", "kit-secret")
        self.arm = Server(self.front, self.identity)
        self.authority = Server(self.front, self.identity, certificate=certificate())
        for server in (self.arm, self.authority):
            server.start()

    def properties(self) -> dict[str, Any]:
        return {
            "tenant_id": TENANT,
            "client_id": self.identity.client_id,
            "client_secret": self.identity.client_secret,
            "subscription_id": SUBSCRIPTION,
            "resource_group": GROUP,
            "location": LOCATION,
            "authority": self.authority.origin,
            "endpoint": self.arm.origin,
            "ca_cert": str(certificate()),
            "default_subnet": "default/default",
            "ssh_public_key": KEY,
            "fault_domains": 3,
            "poll_s": 0.01,
            "settle_s": 2,
            "state_timeout": 20,
        }

    def close(self) -> None:
        for server in (self.arm, self.authority):
            server.close()


class Witness:
    """ARM, spoken by hand: whatever is refused is an error."""

    def __init__(self, peer: Peer) -> None:
        self._port = peer.arm.server_address[1]
        self._token = peer.identity.issue()["access_token"]

    def ask(self, method: str, path: str, body: Json | None = None, *, version: str | None = None) -> Json:
        provider = path.partition("/providers/")[2].partition("/")[0]
        version = version or ("2023-04-02" if any(one in path for one in _DISKS) else _VERSIONS[provider])
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        raw = None if body is None else json.dumps(body)
        connection.request(method, f"{path}?api-version={version}", raw, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read() or b"{}")
        connection.close()
        if answer.status >= 400:
            raise LookupError(f"{answer.status} {found['error']['code']}: {found['error']['message']}")
        return dict(found)


def path_of(kind: str, name: str) -> str:
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/{_TYPES[kind]}/{name}"


class AzureOperator(Operator):
    """`carrier`: what server groups are here."""

    def __init__(self, peer: Peer, carrier: str = "server_group") -> None:
        self._carrier = carrier
        self._front = peer.front
        self._witness = Witness(peer)
        self._numbers = itertools.count(1)

    def create_vm(self, name: str, az: str) -> str:
        return self.boot(name)

    def create_group(self, name: str, policy: str, az: str) -> str:
        return self.make("server_group", name)

    def create_security_group(self, name: str) -> str:
        return self.make("security_group", name)

    def create(self, kind: Kind, az: str) -> str | None:
        if kind not in _TYPES:
            return None
        return self.make(kind, f"somebodys-{kind}-{next(self._numbers)}".replace("_", "-"))

    def make(self, kind: Kind, name: str, tags: Mapping[str, str] | None = None) -> str:
        """Snapshots and images are made of a disk, which is deleted then."""
        body: Json = {}
        match kind:
            case "vm":
                return self.boot(name, tags=tags)
            case "port":
                return self._nic(name, tags)
            case "server_group":
                body = {"properties": _FLEXIBLE}
                if self._carrier == "server_group":
                    body = {"sku": {"name": "Aligned"}, "properties": {"platformFaultDomainCount": 3}}
            case "disk":
                body = {"properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 1}}
            case "snapshot" | "image":
                source = path_of("disk", self.make("disk", f"{name}-source"))
                system = {"osType": "Linux", "osState": "Generalized", "managedDisk": {"id": source}}
                made = {
                    "snapshot": {"creationData": {"createOption": "Copy", "sourceResourceId": source}},
                    "image": {"storageProfile": {"osDisk": system}},
                }
                body = {"properties": made[kind]}
        self._witness.ask("PUT", self._path(kind, name), {"location": LOCATION, "tags": dict(tags or {}), **body})
        if kind in ("snapshot", "image"):
            self._witness.ask("DELETE", source)
        return name

    def tag(self, kind: Kind, cid: str, tags: Mapping[str, str]) -> None:
        found = self._witness.ask("GET", self._path(kind, cid))
        self._witness.ask("PATCH", self._path(kind, cid), {"tags": {**found.get("tags", {}), **tags}})

    def create_public_address(self, name: str) -> str:
        path = (
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network/publicIPAddresses/{name}"
        )
        self._witness.ask("PUT", path, {"location": LOCATION, "sku": {"name": "Standard"}})
        return str(self._witness.ask("GET", path)["properties"]["ipAddress"])

    def deallocate(self, vm: str) -> None:
        self._witness.ask("POST", f"{path_of('vm', vm)}/deallocate")

    def keep(self, kind: Kind, cid: str) -> bool:
        self.tag(kind, cid, {KEEP: "yes"})
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        return self.make(kind, "copy-of-ours", self._witness.ask("GET", self._path(kind, cid)).get("tags", {}))

    def share(self, image_cid: str) -> bool:
        """A scale set in another resource group has it, put there past the front, which makes none with a profile."""
        profile = {"storageProfile": {"imageReference": {"id": path_of("image", image_cid)}}}
        path = self._front.path("others", _TYPES["scale_set"], "fleet")
        self._front.shelf.put(
            Resource(path, _TYPES["scale_set"], "fleet", {"properties": {"virtualMachineProfile": profile}}, 0.0)
        )
        return True

    def unshare(self, image_cid: str) -> None:
        found = self._front.shelf.get(self._front.path("others", _TYPES["scale_set"], "fleet"))
        assert found
        self._front.shelf.drop(found)

    def _path(self, kind: str, name: str) -> str:
        return path_of(self._carrier if kind == "server_group" else kind, name.removeprefix("scaleset."))

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        """A set is joined at creation only, so the operator makes the VM anew."""
        self.delete("vm", vm_cid)
        return self.boot(vm_cid, group=resource.cid)

    def delete(self, kind: Kind, cid: str) -> None:
        if kind == "server_group":
            self._erase(cid)
            return
        if kind == "security_group":
            self._take_off(cid)
        if kind == "port":  # Azure refuses one that a VM has
            used = self._witness.ask("GET", path_of("port", cid))["properties"].get("virtualMachine")
            if used:
                self._witness.ask("DELETE", used["id"])
                return
        self._witness.ask("DELETE", self._path(kind, cid))
        if kind == "vm":
            self._witness.ask("DELETE", path_of("port", f"{cid}-nic"))

    def exists(self, kind: Kind, cid: str) -> bool:
        try:
            self._witness.ask("GET", self._path(kind, cid))
        except LookupError:
            return False
        return True

    def _erase(self, name: str) -> None:
        """Azure refuses to delete a set with members, and deletes those of a scale set, so this is an accident of the
        cloud, not a request."""
        found = self._front.shelf.get(self._path("server_group", name))
        if found:
            self._front.compute.groups.forget_group(found)

    def _take_off(self, name: str) -> None:
        for nic in self._front.shelf.every(_TYPES["port"]):
            if str((nic.properties.get("networkSecurityGroup") or {}).get("id")).endswith(f"/{name}"):
                nic.properties.pop("networkSecurityGroup")
                self._front.shelf.put(nic)

    def boot(
        self,
        name: str,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
        security_group: str | None = None,
    ) -> str:
        nic = self._nic(f"{name}-nic", security_group=security_group)
        image = {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}
        os_disk = {"createOption": "FromImage", "deleteOption": "Delete"}
        properties: Json = {
            "hardwareProfile": {"vmSize": "Standard_B1s"},
            "storageProfile": {"imageReference": image, "osDisk": os_disk},
            "osProfile": {"computerName": name, "adminUsername": "somebody", "adminPassword": "Pass.word-1234"},
            "networkProfile": {"networkInterfaces": [{"id": path_of("port", nic)}]},
        }
        if group:
            key = "availabilitySet" if self._carrier == "server_group" else "virtualMachineScaleSet"
            properties[key] = {"id": self._path("server_group", group)}
        body = {"location": LOCATION, "properties": properties, "tags": dict(tags or {})}
        self._witness.ask("PUT", path_of("vm", name), body)
        return name

    def _nic(self, name: str, tags: Mapping[str, str] | None = None, security_group: str | None = None) -> str:
        subnet = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network/virtualNetworks"
        config = {"name": "a", "properties": {"subnet": {"id": f"{subnet}/default/subnets/default"}}}
        properties: Json = {"ipConfigurations": [config]}
        if security_group:
            properties["networkSecurityGroup"] = {"id": path_of("security_group", security_group)}
        body = {"location": LOCATION, "properties": properties, "tags": dict(tags or {})}
        self._witness.ask("PUT", path_of("port", name), body)
        return name


class AzureFaults(Faults):
    def __init__(self, peer: Peer, calls: Mapping[str, tuple[str, str]] = _CALLS) -> None:
        self._calls = calls
        self._front = peer.front
        self._identity = peer.identity
        self.expire = self._identity.expire

    def fail(self, method: str) -> None:
        self._add(method, "fail")

    def throttle(self, method: str) -> None:
        self._add(method, "throttle")

    def lose_answer(self, method: str) -> None:
        self._add(method, "lose")

    def late(self, method: str) -> None:
        self._add(method, "late")

    def clear(self) -> None:
        self._front.tricks = []

    def _add(self, method: str, what: str) -> None:
        self._front.tricks.append(Trick(what, *self._calls[method]))


class AzureBed(SmallBed):
    """`hosts`: how many members a strict group takes, which is what this cloud has in their place."""

    driver = "azure"
    azs = ("region",)
    page_size = 50
    hosts = 3
    carrier = "server_group"
    limits: Mapping[str, Reason] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.peer = Peer(folder)
        self._coordinator = LedgerCoordinator(_ledger(), "kit")
        self.operator = AzureOperator(self.peer, self.carrier)
        self.faults = AzureFaults(self.peer, {**_CALLS, "create_server_group": ("PUT", _TYPES[self.carrier][18:])})

    def open(self, director_uuid: str | None = None) -> Cpi:
        parts = LedgerPartRecords(_ledger, "lab")
        director = director_uuid or self.director_uuid
        runtime = Runtime(director, self._coordinator, parts=parts, credential_sources=(EVERY_SOURCE,))
        return AzureCpi("lab", {**self.peer.properties(), **self.more}, runtime)

    def az_properties(self, az: str) -> Json:
        return {}

    def vm_properties(self, az: str) -> Json:
        return {"instance_type": "Standard_B1s"}

    def huge_vm_properties(self, az: str) -> Json:
        return {"instance_type": "Standard_M416ms_v2"}

    def networks(self, az: str, address: str | None) -> Networks:
        return {"default": {"type": "manual", "ip": address, "cloud_properties": {}}}

    @contextmanager
    def inside(self, vm_cid: str) -> Iterator[bool]:
        """The metadata service has a fixed address; here it is the front's."""
        self.peer.arm.inside = vm_cid
        url, ask = f"{self.peer.arm.origin}/metadata/instance/compute?api-version=2021-02-01", Machines.current_id
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Machines, "current_id", lambda self: ask(self, url))
            yield True

    def inventory(self) -> Inventory:
        """Every resource of the group, seen from inside the front."""
        kinds = {type_: "server_group" if kind == "scale_set" else kind for kind, type_ in _TYPES.items()}
        own = path_of("vm", "").partition("/providers/")[0].lower()
        found = [one for one in self.peer.front.shelf.every_one() if one.id.lower().startswith(own)]
        return frozenset((kinds[one.type], one.name) for one in found if one.type in kinds and one.state != "Deleting")

    def close(self) -> None:
        self.peer.close()


class ScaleSetBed(AzureBed):
    """Server groups are Flexible scale sets."""

    driver = "azure-scale-sets"
    carrier = "scale_set"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.more |= {"spread": "scale-set", "settle_s": 0.2}
