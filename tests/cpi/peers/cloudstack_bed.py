"""The bed of the CloudStack driver: the emulator, strict; operator and inventory look past the driver."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cs import CloudStack, CloudStackApiException
from tests.peers.cloudstack_witness import Witness

import requests
from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Operator
from coterie.cpi.contract import KEEP, Cpi, GroupResource, Json, Kind, Networks, Reason, Runtime
from coterie.cpi.drivers.cloudstack.driver import CloudstackCpi
from coterie.engine.part_records import LedgerPartRecords
from coterie.sandbox import images
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.fronts.cloudstack import configuration, shelf
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.furnish import default_network
from coterie.sandbox.fronts.cloudstack.server import Server
from coterie.sandbox.layout import SIZES
from coterie.sandbox.pages import EVERYTHING
from coterie.sandbox.twist import Tx
from peers.foreign import SmallBed
from peers.sandbox_bed import LISTS, _ledger
from peers.sandbox_operator import SandboxFaults

TYPES = {
    "anti-affinity": "host anti-affinity",
    "affinity": "host affinity",
    "soft-anti-affinity": "non-strict host anti-affinity",
    "soft-affinity": "non-strict host affinity",
}
# methods of the contract → the command that a fault bends
COMMANDS = {
    "create_vm": "deployVirtualMachine",
    "delete_vm": "destroyVirtualMachine",
    "create_disk": "createVolume",
    "create_server_group": "createAffinityGroup",
}


class CloudstackBed(SmallBed):
    driver = "cloudstack"
    account = "admin"
    page_size = 25
    hosts = SIZES["racks"] * SIZES["hosts_per_rack"]
    lazy_disks = True
    parallel = 8
    limits: Mapping[str, Reason] = {
        "expire": Reason("its driver holds no session", "every request is signed anew: CloudStack API, signing")
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.datacenter = open_datacenter(folder / "sandbox.db")
        self.server = Server(self.datacenter)
        self.witness = Witness(self.server)
        self.server.start()
        self.set("coterie.security.groups", "true")
        self._keys = {keys.account: keys for keys in self.server.front.keys}
        self._numbers = itertools.count(10)
        self.faults = EmulatorFaults(self.datacenter.store, "createAffinityGroup")
        self.operator = CloudstackOperator(self.client(), open_account(self.datacenter, self.account, operator=True))

    def set(self, name: str, value: str) -> None:
        with self.datacenter.store.writing() as db:
            configuration.change(db, name, value)

    def client(self, account: str | None = None) -> CloudStack:
        keys = self._keys[account or self.account]
        return CloudStack(
            endpoint=self.server.endpoint,
            key=keys.api_key,
            secret=keys.secret_key,
            method="post",
            fetch_result=True,
            poll_interval=0.01,
        )

    def upload(self, client: CloudStack, **more: Any) -> str:
        """A template of another user, in the first zone, as any client uploads one."""
        zone = client.listZones(name=self.azs[0])["zone"][0]["id"]
        order = {"name": "theirs", "displaytext": "theirs", "format": "QCOW2", "hypervisor": "KVM", "zoneid": zone}
        permit = client.getUploadParamsForTemplate(**order, **more)["getuploadparams"]
        headers = {f"x-{name}": permit[name] for name in ("signature", "metadata", "expires")}
        answer = requests.post(permit["postURL"], headers=headers, files={"file": b"image"}, timeout=60)
        assert answer.status_code == 200
        return str(permit["id"])

    def properties(self) -> dict[str, Any]:
        keys = self._keys[self.account]
        return {
            "endpoint": self.server.endpoint,
            "api_key": keys.api_key,
            "secret_access_key": keys.secret_key,
            "default_zone": self.azs[0],
            "poll_s": 0.01,
            "settle_s": 5,
            "page_size": self.page_size,
            "host_visibility": self.account == "admin",
            "security_group_change": "restart",
            "metadata_url": f"{self.server.origin}/latest/vm-id",
            **self.more,
        }

    def open(self, director_uuid: str | None = None) -> Cpi:
        parts = LedgerPartRecords(_ledger, "lab")
        uuid = director_uuid or self.director_uuid
        runtime = Runtime(uuid, None, parts=parts)  # type: ignore[arg-type] # it submits nothing
        return CloudstackCpi("lab", self.properties(), runtime)

    def vm_properties(self, az: str) -> Json:
        return {"compute_offering": "tiny", "zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"compute_offering": "giant", "zone": az}

    def address(self, az: str) -> str | None:
        number = next(self._numbers)
        return f"127.{40 + self.azs.index(az)}.{number // 250}.{number % 250 + 1}"

    def networks(self, az: str, address: str | None) -> Networks:
        where = {"name": default_network(az)}
        return {"default": {"type": "manual", "ip": address, "netmask": "255.255.0.0", "cloud_properties": where}}

    def inventory(self) -> Inventory:
        account = open_account(self.datacenter, self.account, operator=True)
        found = {(kind, outer_id(item.id)) for kind, items in _listed(account) for item in items}
        with self.datacenter.store.reading() as db:
            found |= {("keypair", thing.id) for thing in shelf.every(db, "keypair", self.account)}
            taken = [thing for thing in shelf.every(db, "publicip") if thing.doc["state"] != "Free"]
            found |= {("ip", thing.id) for thing in taken}
        found |= {("memo", key) for _, items in _listed(account) for item in items for key in item.tags if "cg-" in key}
        return frozenset(found)

    def close(self) -> None:
        self.server.close()
        assert self.witness.mistakes == []


class CloudstackUserBed(CloudstackBed):
    """The same without the rights of an administrator, in a cloud that lets users expunge."""

    driver = "cloudstack-user"
    account = "user"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.set("allow.user.expunge.recover.vm", "true")


def _listed(account: Account) -> list[tuple[str, list[Any]]]:
    found: list[tuple[str, list[Any]]] = []
    for kind, listing in LISTS.items():
        after: str | None = None
        while True:
            page = listing(account, EVERYTHING, after)
            found.append((kind, list(page.items)))
            after = page.next
            if after is None:
                break
    return found


class EmulatorFaults(SandboxFaults):
    def __init__(self, store: Any, holder: str) -> None:
        super().__init__(store, holder)
        self._names = dict(COMMANDS)


class CloudstackOperator(Operator):
    """Another client with the same keys."""

    def __init__(self, client: CloudStack, account: Account) -> None:
        self._client = client
        self._account = account
        self._template = _image(account)

    def create_vm(self, name: str, az: str) -> str:
        return self._boot(name, az)

    def create_vm_with(self, security_group: str, az: str) -> str:
        return self._boot("theirs", az, securitygroupids=security_group)

    def create_image(self, name: str) -> str:
        return _image(self._account, name)

    def create_group(self, name: str, policy: str, az: str) -> str:
        return str(self._client.createAffinityGroup(name=name, type=TYPES[policy])["affinitygroup"]["id"])

    def create_security_group(self, name: str) -> str:
        return str(self._client.createSecurityGroup(name=name)["securitygroup"]["id"])

    def create(self, kind: Kind, az: str) -> str | None:
        client, name = self._client, f"{kind}-of-somebody"
        match kind:
            case "vm":
                return self.create_vm(name, az)
            case "disk":
                offerings = client.listDiskOfferings()["diskoffering"]
                fixed = next(one["id"] for one in offerings if not one["iscustomized"])
                made = client.createVolume(name=name, zoneid=self._zone(az), diskofferingid=fixed)
                return str(made["volume"]["id"])
            case "image":
                return _image(self._account, name)
            case "security_group":
                return self.create_security_group(name)
            case "server_group":
                return self.create_group(name, "soft-anti-affinity", az)
            case "keypair":
                return str(client.createSSHKeyPair(name=name)["keypair"]["name"])
            case "ip":
                network = client.listNetworks(zoneid=self._zone(az))["network"][0]["id"]
                return str(client.associateIpAddress(networkid=network)["ipaddress"]["id"])
        return None  # a snapshot keeps its disk

    def keep(self, kind: Kind, cid: str) -> bool:
        types = {"vm": "UserVm", "disk": "Volume", "snapshot": "Snapshot", "image": "Template", "network": "Network"}
        if kind not in types:
            return False
        self._client.createTags(resourcetype=types[kind], resourceids=cid, tags=[{"key": KEEP, "value": "yes"}])
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        assert kind == "security_group"
        about = self._client.listSecurityGroups(id=cid)["securitygroup"][0]["description"]
        made = self._client.createSecurityGroup(name="copy-of-ours", description=about)
        return str(made["securitygroup"]["id"])

    def share(self, image_cid: str) -> bool:
        self._client.updateTemplatePermissions(id=image_cid, accounts="another", op="add")
        return True

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        self._client.stopVirtualMachine(id=vm_cid)
        self._client.updateVMAffinityGroup(id=vm_cid, affinitygroupids=resource.cid)
        self._client.startVirtualMachine(id=vm_cid)
        return vm_cid

    def delete(self, kind: Kind, cid: str) -> None:
        if not self.exists(kind, cid):
            return
        if kind == "vm":
            self._client.destroyVirtualMachine(id=cid, expunge=True)
        elif kind == "keypair":
            self._client.deleteSSHKeyPair(name=cid)
        else:
            delete = {
                "server_group": self._client.deleteAffinityGroup,
                "security_group": self._client.deleteSecurityGroup,
                "disk": self._client.deleteVolume,
                "image": self._client.deleteTemplate,
                "ip": self._client.disassociateIpAddress,
            }[kind]
            delete(id=cid)

    def exists(self, kind: Kind, cid: str) -> bool:
        listing = {
            "vm": self._client.listVirtualMachines,
            "server_group": self._client.listAffinityGroups,
            "security_group": self._client.listSecurityGroups,
            "disk": self._client.listVolumes,
            "image": partial(self._client.listTemplates, templatefilter="self"),
            "ip": self._client.listPublicIpAddresses,
            "keypair": self._client.listSSHKeyPairs,
        }[kind]
        try:
            return bool(listing(**{"name" if kind == "keypair" else "id": cid}))
        except CloudStackApiException:
            return False

    def _boot(self, name: str, az: str, **more: Any) -> str:
        made = self._client.deployVirtualMachine(
            name=name,
            zoneid=self._zone(az),
            templateid=self._template,
            serviceofferingid=self._client.listServiceOfferings(name="tiny")["serviceoffering"][0]["id"],
            **more,
        )
        return str(made["virtualmachine"]["id"])

    def _zone(self, az: str) -> str:
        return str(self._client.listZones(name=az)["zone"][0]["id"])


def _image(account: Account, name: str = "operators-image") -> str:
    """Made past the API, so that no test pays for an upload."""
    made = outer_id(images.create_image(account, name=name).id)
    zones = {zone: {"status": "Download Complete", "ready": True, "settled": True} for zone in ("z1", "z2", "z3")}
    doc = {"format": "QCOW2", "hypervisor": "KVM", "displaytext": "", "public": False, "zones": zones}
    with account.datacenter.store.writing() as db:
        tx = Tx(db, account.name, account.datacenter.clock(), account.datacenter.ids)
        shelf.put(tx, "template", name, doc, made)
    return made
