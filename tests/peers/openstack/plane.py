"""The control plane as a test sees it: whether it runs, and accounts in it that speak plain REST."""

from __future__ import annotations

import itertools
import os
import time
from functools import cache, cached_property
from typing import Any

from tests.peers.openstack import rest
from tests.peers.openstack.layout import PASSWORD, Layout
from tests.peers.openstack.reach import answers

_VERSIONS = {"nova": "compute 2.79", "cinder": "volume 3.59"}
_ROOTS = {"keystone": "/v3", "nova": "/v2.1", "neutron": "/v2.0", "glance": "/v2"}
_numbers = itertools.count()


@cache
def plane() -> Layout:
    """The control plane that runs here; without one, an error that says how to start it."""
    layout = Layout()
    try:
        answers(f"{layout.url['keystone']}/v3")
    except OSError:
        raise RuntimeError("no OpenStack runs here: `make test-openstack` brings one up and runs these tests") from None
    return layout


class Account:
    """A user in a project; every call is one request, and a refusal is `rest.Refused`."""

    def __init__(self, user: str, project: str, project_id: str | None = None) -> None:
        self.user, self.project = user, project
        self._layout = plane()
        self._project_id = project_id

    @cached_property
    def token(self) -> str:
        return rest.login(self._layout.url["keystone"], self.user, self.project)

    @cached_property
    def project_id(self) -> str:
        if self._project_id:
            return self._project_id
        found = rest.call("GET", f"{self._layout.url['keystone']}/v3/projects?name={self.project}", token=self.token)
        return str(found["projects"][0]["id"])

    def url(self, service: str) -> str:
        root = f"/v3/{self.project_id}" if service == "cinder" else _ROOTS[service]
        return self._layout.url[service] + root

    def call(self, verb: str, service: str, path: str, body: Any = None, **more: Any) -> Any:
        version = {"OpenStack-API-Version": _VERSIONS[service]} if service in _VERSIONS else {}
        return rest.call(verb, self.url(service) + path, body, self.token, headers=version, **more)

    def get(self, service: str, path: str) -> Any:
        return self.call("GET", service, path)

    def every(self, service: str, path: str, key: str) -> list[Any]:
        """All pages of a list."""
        found: list[Any] = []
        step, mark = 500, ""
        while True:
            joint = "&" if "?" in path else "?"
            page = self.get(service, f"{path}{joint}limit={step}{mark}")[key]
            found += page
            if len(page) < step:
                return found
            mark = f"&marker={page[-1]['id']}"


@cache
def admin() -> Account:
    return Account("admin", "admin")


class Tenant(Account):
    """A project of a test's own, with a user, a network and quotas, used by this test only."""

    changed = False  # whether its quotas are no longer those that it was made with

    def __init__(self) -> None:
        name = f"t{os.getpid()}-{next(_numbers)}-{time.time_ns() % 10**9}"
        ruler = admin()
        domain = {"domain_id": "default"}
        order = {"project": {"name": name, **domain}}
        made = ruler.call("POST", "keystone", "/projects", order)["project"]["id"]
        super().__init__(name, name, made)
        order = {"user": {"name": name, "password": PASSWORD, **domain}}
        self.user_id = ruler.call("POST", "keystone", "/users", order)["user"]["id"]
        role = ruler.get("keystone", "/roles?name=member")["roles"][0]["id"]
        ruler.call("PUT", "keystone", f"/projects/{made}/users/{self.user_id}/roles/{role}")
        self.quota(server_groups=100, server_group_members=100, instances=200, cores=400, ram=-1, key_pairs=200)
        self.changed = False
        many = {"port": 500, "security_group": 200, "security_group_rule": 1000, "floatingip": 50, "network": 20}
        ruler.call("PUT", "neutron", f"/quotas/{made}", {"quota": many})
        ruler.call(
            "PUT", "cinder", f"/os-quota-sets/{made}", {"quota_set": {"volumes": 300, "gigabytes": -1, "snapshots": 50}}
        )

    def quota(self, **sizes: int) -> None:
        """Of Nova, set by the administrator."""
        self.changed = True
        admin().call("PUT", "nova", f"/os-quota-sets/{self.project_id}", {"quota_set": {"force": True, **sizes}})

    @cached_property
    def network(self) -> str:
        """10.20.0.0/16: the lower half is for static addresses."""
        made = self.call("POST", "neutron", "/networks", {"network": {"name": "net"}})["network"]["id"]
        pool = [{"start": "10.20.128.1", "end": "10.20.255.250"}]
        subnet = {"network_id": made, "ip_version": 4, "cidr": "10.20.0.0/16", "allocation_pools": pool}
        self.call("POST", "neutron", "/subnets", {"subnet": {**subnet, "name": "subnet", "enable_dhcp": False}})
        return str(made)

    @cached_property
    def outer_network(self) -> str:
        """The one of floating IPs; a router leads to it."""
        outer = self.get("neutron", "/networks?name=lab-external")["networks"][0]["id"]
        router = {"name": "router", "external_gateway_info": {"network_id": outer}}
        made = self.call("POST", "neutron", "/routers", {"router": router})["router"]["id"]
        subnet = self.get("neutron", f"/subnets?network_id={self.network}")["subnets"][0]["id"]
        self.call("PUT", "neutron", f"/routers/{made}/add_router_interface", {"subnet_id": subnet})
        return str(outer)

    def close(self) -> None:
        """Its furniture goes; what a test left in it stays, and keeps its project."""
        for router in self.get("neutron", "/routers")["routers"]:
            ports = self.get("neutron", f"/ports?device_id={router['id']}")["ports"]
            for port in ports:
                body = {"port_id": port["id"]}
                self.call("PUT", "neutron", f"/routers/{router['id']}/remove_router_interface", body)
            self.call("DELETE", "neutron", f"/routers/{router['id']}")
        mine = f"/networks?project_id={self.project_id}"
        if self.get("neutron", f"/ports?project_id={self.project_id}")["ports"]:
            return
        for network in self.get("neutron", mine)["networks"]:
            self.call("DELETE", "neutron", f"/networks/{network['id']}")
        admin().call("DELETE", "keystone", f"/users/{self.user_id}")
        admin().call("DELETE", "keystone", f"/projects/{self.project_id}")
