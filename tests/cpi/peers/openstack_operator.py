"""Another user of the same project, without marks, who calls the services directly, past the fault proxy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers.openstack import rest
from tests.peers.openstack.plane import Tenant, admin
from tests.peers.openstack.rest import Refused

from coterie.cpi.conformance.hands import Operator
from coterie.cpi.contract import KEEP, GroupResource, Kind

PATHS = {
    "vm": ("nova", "/servers"),
    "server_group": ("nova", "/os-server-groups"),
    "keypair": ("nova", "/os-keypairs"),
    "security_group": ("neutron", "/security-groups"),
    "port": ("neutron", "/ports"),
    "ip": ("neutron", "/floatingips"),
    "disk": ("cinder", "/volumes"),
    "snapshot": ("cinder", "/snapshots"),
    "image": ("glance", "/images"),
    "network": ("neutron", "/networks"),
}
_LISTS = {
    "vm": ("nova", "/servers", "servers"),
    "server_group": ("nova", "/os-server-groups", "server_groups"),
    "disk": ("cinder", "/volumes", "volumes"),
    "snapshot": ("cinder", "/snapshots", "snapshots"),
    "security_group": ("neutron", "/security-groups", "security_groups"),
    "port": ("neutron", "/ports", "ports"),
    "ip": ("neutron", "/floatingips", "floatingips"),
    "network": ("neutron", "/networks", "networks"),
}
_WAIT_S = 60
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDuRarZnRJUz5VFrCszxlkowqY/VWhemiuRpNjD+8mdO"


class OpenstackOperator(Operator):
    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant

    def create_vm(self, name: str, az: str) -> str:
        return self.boot(name, az)

    def boot(self, name: str, az: str, group: str | None = None, **more: Any) -> str:
        image = self.tenant.get("glance", "/images?name=lab-image")["images"][0]["id"]
        flavors = self.tenant.get("nova", "/flavors")["flavors"]
        server = {
            "name": name,
            "imageRef": image,
            "flavorRef": next(one["id"] for one in flavors if one["name"] == "m1.tiny"),
            "networks": [{"uuid": self.tenant.network}],
            "availability_zone": az,
            **more,
        }
        hints = {"os:scheduler_hints": {"group": group}} if group else {}
        made = self.tenant.call("POST", "nova", "/servers", {"server": server, **hints})["server"]["id"]
        self.wait_for(made)
        return str(made)

    def wait_for(self, vm_cid: str) -> None:
        until(lambda: self.server(vm_cid)["status"] != "BUILD")
        assert self.server(vm_cid)["status"] == "ACTIVE", self.server(vm_cid).get("fault")

    def create_group(self, name: str, policy: str, az: str = "") -> str:
        order = {"server_group": {"name": name, "policy": policy}}
        return str(self.tenant.call("POST", "nova", "/os-server-groups", order)["server_group"]["id"])

    def create_security_group(self, name: str) -> str:
        order = {"security_group": {"name": name, "description": "the operator's"}}
        return str(self.tenant.call("POST", "neutron", "/security-groups", order)["security_group"]["id"])

    def create(self, kind: Kind, az: str) -> str | None:
        name, call = f"{kind} of somebody", self.tenant.call
        match kind:
            case "vm":
                return self.create_vm(name, az)
            case "disk":
                made = str(call("POST", "cinder", "/volumes", {"volume": {"name": name, "size": 1}})["volume"]["id"])
                until(lambda: self.tenant.get("cinder", f"/volumes/{made}")["volume"]["status"] == "available")
                return made
            case "image":
                body = {"name": name, "disk_format": "raw", "container_format": "bare"}
                return str(call("POST", "glance", "/images", body)["id"])
            case "network":
                return str(call("POST", "neutron", "/networks", {"network": {"name": name}})["network"]["id"])
            case "security_group":
                body = {"security_group": {"name": name}}
                return str(call("POST", "neutron", "/security-groups", body)["security_group"]["id"])
            case "port":
                body = {"port": {"network_id": self.tenant.network}}
                return str(call("POST", "neutron", "/ports", body)["port"]["id"])
            case "ip":
                body = {"floatingip": {"floating_network_id": self.tenant.outer_network}}
                return str(call("POST", "neutron", "/floatingips", body)["floatingip"]["id"])
            case "keypair":
                body = {"keypair": {"name": "somebody", "type": "ssh", "public_key": _KEY}}
                return str(call("POST", "nova", "/os-keypairs", body)["keypair"]["name"])
            case "server_group":
                return self.create_group(name, "soft-anti-affinity")
        return None  # a snapshot keeps its disk

    def keep(self, kind: Kind, cid: str) -> bool:
        """Nova's, Neutron's and Glance's tags, Cinder's metadata."""
        if kind in ("server_group", "keypair"):
            return False
        service, path = PATHS[kind]
        if service == "cinder":
            self.tenant.call("POST", service, f"{path}/{cid}/metadata", {"metadata": {KEEP: "yes"}})
        else:
            self.tenant.call("PUT", service, f"{path}/{cid}/tags/{KEEP}", {} if service == "neutron" else None)
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        service, path = PATHS[kind]
        one = {"security_group": "security_group", "port": "port", "ip": "floatingip"}[kind]
        row = self.tenant.get(service, f"{path}/{cid}")[one]
        copied = {
            "security_group": {"name": "copy-of-ours"},
            "port": {"name": row.get("name"), "network_id": row.get("network_id")},
            "ip": {"floating_network_id": row.get("floating_network_id")},
        }[kind]
        body = {one: {**copied, "description": row["description"]}}
        return str(self.tenant.call("POST", service, path, body)[one]["id"])

    def share(self, image_cid: str) -> bool:
        change = [{"op": "replace", "path": "/visibility", "value": "shared"}]
        form = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
        rest.call("PATCH", f"{self.tenant.url('glance')}/images/{image_cid}", change, self.tenant.token, headers=form)
        self.tenant.call("POST", "glance", f"/images/{image_cid}/members", {"member": admin().project_id})
        return True

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        """Nova takes no VM into a group after its boot, so another VM is created in it."""
        if resource.kind == "security_group":
            body = {"addSecurityGroup": {"name": resource.cid}}
            self.tenant.call("POST", "nova", f"/servers/{vm_cid}/action", body)
            return vm_cid
        server = self.server(vm_cid)
        self.delete("vm", vm_cid)
        return self.boot(server["name"], server["OS-EXT-AZ:availability_zone"], resource.cid)

    def delete(self, kind: Kind, cid: str) -> None:
        service, path = PATHS[kind]
        try:
            self.tenant.call("DELETE", service, f"{path}/{cid}")
        except Refused as error:
            if error.status != 404:
                raise
        if kind == "vm":
            until(lambda: not self.exists("vm", cid))

    def exists(self, kind: Kind, cid: str) -> bool:
        service, path = PATHS[kind]
        try:
            self.tenant.get(service, f"{path}/{cid}")
        except Refused as error:
            if error.status in (400, 404):
                return False
            raise
        return True

    def server(self, cid: str) -> Any:
        return self.tenant.get("nova", f"/servers/{cid}")["server"]

    @contextmanager
    def closed(self, *hosts: str) -> Iterator[None]:
        """The scheduler sends nothing to these hosts meanwhile."""
        services = admin().get("nova", "/os-services?binary=nova-compute")["services"]
        wanted = [one["id"] for one in services if one["host"] in hosts]
        for one in wanted:
            admin().call("PUT", "nova", f"/os-services/{one}", {"status": "disabled"})
        try:
            yield
        finally:
            for one in wanted:
                admin().call("PUT", "nova", f"/os-services/{one}", {"status": "enabled"})

    def hosts(self) -> dict[str, str]:
        """VM → host, as only an administrator sees it."""
        found = admin().every("nova", f"/servers/detail?all_tenants=1&project_id={self.tenant.project_id}", "servers")
        return {one["id"]: one["OS-EXT-SRV-ATTR:host"] for one in found}

    def listed(self, kind: str) -> list[Any]:
        service, path, key = _LISTS[kind]
        if service == "neutron":
            path = f"{path}?project_id={self.tenant.project_id}"
        # the pages of server groups go by offset, and a project has few
        rows = self.tenant.get(service, path)[key] if kind == "server_group" else self.tenant.every(service, path, key)
        return [one for one in rows if not _furniture(kind, one)]


def _furniture(kind: str, row: Any) -> bool:
    if kind == "port":
        return str(row["device_owner"]).startswith("network:")
    return kind in ("security_group", "network") and row["name"] in ("default", "net")


def until(look: Callable[[], Any], within_s: float = _WAIT_S) -> Any:
    """What a look finds in the end."""
    give_up = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < give_up, "it does not come"
        time.sleep(0.1)
    return found
