"""A bed on the sandbox's Compute Engine: the driver with a service account's key, over HTTP, to the strict front. The
operator is another client of the same API."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.contract import EVERY_SOURCE, KEEP, Cpi, GroupResource, Json, Kind, Networks, Reason, Runtime
from coterie.cpi.drivers.gcp.driver import GcpCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.gcp.call import REGION, Settings, Trick
from coterie.sandbox.fronts.gcp.front import Front
from coterie.sandbox.fronts.gcp.server import Identity, Server
from coterie.sandbox.layout import SIZES
from peers.foreign import SmallBed
from peers.sandbox_bed import _ledger

PROJECT, EMAIL = "lab-project", "kit@lab-project.iam.gserviceaccount.com"
DOMAINS = 4
LAYOUT: Json = {"zones": [{"name": name, **SIZES, "racks": DOMAINS, "hosts_per_rack": 2} for name in ("z1", "z2")]}
PUBLIC_IMAGE = "projects/debian-cloud/global/images/family/debian-12"
_KINDS: dict[str, str] = {
    "vm": "instances",
    "disk": "disks",
    "snapshot": "snapshots",
    "image": "images",
    "server_group": "resourcePolicies",
    "security_group": "firewalls",
    "network": "subnetworks",
}
_ZONAL = ("vm", "disk")
_OTHERS = "serviceAccount:build@others.iam.gserviceaccount.com"
# contract method → what the driver sends for it
_CALLS = {
    "create_vm": "instances.insert",
    "delete_vm": "instances.delete",
    "create_disk": "disks.insert",
    "create_server_group": "resourcePolicies.insert",
}


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def json_key() -> dict[str, str]:
    """As the file of a service account's key."""
    pem = private_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "kit",
        "private_key": pem.decode(),
        "client_email": EMAIL,
        "token_uri": "http://127.0.0.1:1/token",  # a signed token needs none
    }


class Peer:
    """The front and its server."""

    def __init__(self, folder: Path, settings: Settings | None = None, layout: Json | None = None) -> None:
        self.datacenter = open_datacenter(folder / "sandbox.db", layout or LAYOUT)
        settings = settings or Settings(address_prefix="127.0.0.0/8")
        self.front = Front(open_account(self.datacenter, "kit"), PROJECT, settings)
        self.identity = Identity(EMAIL, private_key())
        self.server = Server(self.front, self.identity)
        self.server.start()

    def properties(self) -> dict[str, Any]:
        return {
            "project": PROJECT,
            "region": REGION,
            "json_key": json_key(),
            "endpoint": self.server.origin,
            "default_zone": "z1",
            "default_subnetwork": "default",
            "stemcell_bucket": self.front.settings.bucket,
            "availability_domains": DOMAINS,
            "poll_s": 0.01,
            "settle_s": 2,
            "state_timeout": 20,
            "page_size": 50,
        }

    def close(self) -> None:
        self.server.close()


class Witness:
    """The API, spoken by hand: whatever is refused, also in an operation, is an error."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._token = peer.identity.issue()["access_token"]

    def ask(self, verb: str, path: str, body: Json | None = None) -> Json:
        found = self._send(verb, path, body)
        while found.get("kind") == "compute#operation" and found["status"] != "DONE":
            found = self._send("POST", found["selfLink"].partition(f"/projects/{PROJECT}/")[2] + "/wait", None)
        if found.get("error"):
            raise LookupError(str(found["error"]))
        return found

    def _send(self, verb: str, path: str, body: Json | None) -> Json:
        connection = http.client.HTTPConnection("127.0.0.1", self._peer.server.server_address[1], timeout=10)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        raw = None if body is None else json.dumps(body)
        connection.request(verb, f"/compute/v1/projects/{PROJECT}/{path}", raw, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read() or b"{}")
        connection.close()
        if answer.status >= 400:
            raise LookupError(f"{answer.status} {found['error']['message']}")
        return dict(found)


def path_of(kind: str, cid: str) -> str:
    if kind in _ZONAL:
        zone, _, name = cid.partition("/")
        return f"zones/{zone}/{_KINDS[kind]}/{name}"
    return (
        f"regions/{REGION}/{_KINDS[kind]}/{cid}"
        if kind in ("server_group", "network")
        else f"global/{_KINDS[kind]}/{cid}"
    )


class GcpOperator(Operator):
    def __init__(self, peer: Peer) -> None:
        self._front = peer.front
        self.witness = Witness(peer)
        self._numbers = itertools.count(1)

    def create_vm(self, name: str, az: str) -> str:
        return self.boot(name, az)

    def create_group(self, name: str, policy: str, az: str) -> str:
        body = {"name": name, "groupPlacementPolicy": {"availabilityDomainCount": DOMAINS}}
        self.witness.ask("POST", f"regions/{REGION}/resourcePolicies", body)
        return name

    def create_security_group(self, name: str) -> str:
        body = {"name": name, "targetTags": [name], "sourceRanges": ["10.0.0.0/8"], "allowed": [{"IPProtocol": "tcp"}]}
        self.witness.ask("POST", "global/firewalls", body)
        return name

    def create(self, kind: Kind, az: str) -> str | None:
        name = f"somebodys-{kind}-{next(self._numbers)}".replace("_", "-")
        match kind:
            case "vm":
                return self.create_vm(name, az)
            case "server_group":
                return self.create_group(name, "", az)
            case "security_group":
                return self.create_security_group(name)
            case "disk":
                self.witness.ask("POST", f"zones/{az}/disks", {"name": name, "sizeGb": "1"})
                return f"{az}/{name}"
            case "snapshot":
                self.witness.ask("POST", f"zones/{az}/disks", {"name": name, "sizeGb": "1"})
                source = f"projects/{PROJECT}/zones/{az}/disks/{name}"
                self.witness.ask("POST", "global/snapshots", {"name": name, "sourceDisk": source})
                self.witness.ask("DELETE", f"zones/{az}/disks/{name}")
                return name
            case "network":
                body = {
                    "name": name,
                    "network": f"projects/{PROJECT}/global/networks/default",
                    "ipCidrRange": "10.77.0.0/24",
                }
                self.witness.ask("POST", f"regions/{REGION}/subnetworks", body)
                return name
            case "image":
                self.witness.ask("POST", "global/images", {"name": name, "sourceImage": PUBLIC_IMAGE})
                return name
        return None

    def create_public_address(self, name: str) -> str:
        path = f"regions/{REGION}/addresses"
        self.witness.ask("POST", path, {"name": name})
        return str(self.witness.ask("GET", f"{path}/{name}")["address"])

    def create_nodes(self, name: str, zone: str, count: int) -> str:
        self.witness.ask("POST", f"regions/{REGION}/nodeTemplates", {"name": f"{name}-t"})
        body = {"name": name, "nodeTemplate": f"regions/{REGION}/nodeTemplates/{name}-t"}
        self.witness.ask("POST", f"zones/{zone}/nodeGroups?initialNodeCount={count}", body)
        return name

    def keep(self, kind: Kind, cid: str) -> bool:
        """Placement policies and subnetworks take no labels, and their descriptions are for life."""
        if kind in ("server_group", "network"):
            return False
        path = path_of(kind, cid)
        row = self.witness.ask("GET", path)
        if kind == "security_group":
            self.witness.ask("PATCH", path, {"name": cid, "description": f"{row['description']} {KEEP}"})
            return True
        body = {"labels": {**row.get("labels", {}), KEEP: "yes"}, "labelFingerprint": row["labelFingerprint"]}
        self.witness.ask("POST", f"{path}/setLabels", body)
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        assert kind == "security_group"
        row = self.witness.ask("GET", path_of(kind, cid))
        kept = {key: row[key] for key in ("description", "denied", "sourceRanges", "priority", "targetTags")}
        name = f"{cid[:-4]}copy"
        self.witness.ask("POST", "global/firewalls", {**kept, "name": name})
        return name

    def share(self, image_cid: str) -> bool:
        """With another project's service account, by a role on the image."""
        self._set_policy(image_cid, [{"role": "roles/compute.imageUser", "members": [_OTHERS]}])
        return True

    def unshare(self, image_cid: str) -> None:
        self._set_policy(image_cid, [])

    def _set_policy(self, image_cid: str, bindings: list[Json]) -> None:
        path = f"global/images/{image_cid}"
        policy = self.witness.ask("GET", f"{path}/getIamPolicy")
        self.witness.ask("POST", f"{path}/setIamPolicy", {"policy": {**policy, "bindings": bindings}})

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        """A policy is joined at creation, so the operator makes the VM anew."""
        zone, name = vm_cid.split("/")
        self.delete("vm", vm_cid)
        return self.boot(name, zone, resource.cid)

    def delete(self, kind: Kind, cid: str) -> None:
        if kind == "server_group":  # refused with members, so this is an accident of the cloud, not a request
            found = self._front.shelf.get(path_of(kind, cid))
            if found:
                self._front.shelf.drop(found)
            return
        try:
            self.witness.ask("DELETE", path_of(kind, cid))
        except LookupError as error:
            if "not found" not in str(error):
                raise

    def exists(self, kind: Kind, cid: str) -> bool:
        try:
            self.witness.ask("GET", path_of(kind, cid))
        except LookupError:
            return False
        return True

    def boot(self, name: str, zone: str, policy: str | None = None, **more: Any) -> str:
        disk = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": PUBLIC_IMAGE}}
        body: Json = {
            "name": name,
            "machineType": f"zones/{zone}/machineTypes/f1-micro",
            "disks": [disk],
            "networkInterfaces": [{"subnetwork": f"regions/{REGION}/subnetworks/default"}],
            **more,
        }
        if policy:
            body["resourcePolicies"] = [f"regions/{REGION}/resourcePolicies/{policy}"]
        self.witness.ask("POST", f"zones/{zone}/instances", body)
        return f"{zone}/{name}"


class GcpFaults(Faults):
    def __init__(self, peer: Peer) -> None:
        self._front = peer.front
        self.expire = peer.identity.expire

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
        self._front.tricks.append(Trick(what, _CALLS[method]))


class GcpBed(SmallBed):
    """`hosts`: how many members a strict group takes in a zone, which is what this cloud has in their place."""

    driver = "gcp"
    page_size = 50
    hosts = DOMAINS
    limits: Mapping[str, Reason] = {}

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder)
        self.peer = Peer(folder, settings)
        self.front = self.peer.front
        self._coordinator = LedgerCoordinator(_ledger(), "kit")
        self.operator = GcpOperator(self.peer)
        self.faults = GcpFaults(self.peer)

    def properties(self) -> dict[str, Any]:
        return {**self.peer.properties(), **self.more}

    def open(self, director_uuid: str | None = None) -> Cpi:
        parts = LedgerPartRecords(_ledger, "lab")
        director = director_uuid or self.director_uuid
        runtime = Runtime(director, self._coordinator, parts=parts, credential_sources=(EVERY_SOURCE,))
        return GcpCpi("lab", self.properties(), runtime)

    def az_properties(self, az: str) -> Json:
        return {"zone": az}

    def vm_properties(self, az: str) -> Json:
        return {"machine_type": "f1-micro", "zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"machine_type": "m2-ultramem-416", "zone": az}

    def networks(self, az: str, address: str | None) -> Networks:
        return {"default": {"type": "manual", "ip": address, "cloud_properties": {}}}

    def disk_properties(self, az: str) -> Json:
        return {"zone": az}

    @contextmanager
    def inside(self, vm_cid: str) -> Iterator[bool]:
        self.peer.server.inside = vm_cid
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GCE_METADATA_HOST", self.peer.server.origin.removeprefix("http://"))
            yield True

    def inventory(self) -> Inventory:
        """Every resource and every uploaded object, seen from inside the front."""
        with self.front.lock:
            self.front.finish_due()
            kinds = {name: kind for kind, name in _KINDS.items()}
            rows = self.front.shelf.every_one()
        found = {
            (kinds[one.kind], f"{one.scope.split('/')[-1]}/{one.name}" if kinds[one.kind] in _ZONAL else one.name)
            for one in rows
            if one.kind in kinds and not one.path.endswith("subnetworks/default")
        }
        return frozenset(found | {("object", name) for _, name in self.front.compute.objects})

    def close(self) -> None:
        self.peer.close()
