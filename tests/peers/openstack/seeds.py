"""What a fresh cloud needs before it can be used: accounts, a catalogue, flavours, zones, an outer network."""

from __future__ import annotations

from typing import Any

from tests.peers.openstack import rest
from tests.peers.openstack.configuration import CLOUDS
from tests.peers.openstack.layout import PASSWORD, REGION, Layout

_CATALOGUE = {
    "keystone": ("identity", "/v3"),
    "placement": ("placement", ""),
    "glance": ("image", ""),
    "neutron": ("network", ""),
    "nova": ("compute", "/v2.1"),
    "cinderv3": ("volumev3", "/v3/%(project_id)s"),
}
_ROLES = (
    *(("service", "service", "admin"), ("service", "service", "service")),
    *(("demo", "demo", "member"), ("other", "other", "member")),
)
# name → vCPUs, MiB, GiB of the root disk, GiB of the ephemeral disk; no host has room for the last one
FLAVORS = {
    "m1.tiny": (1, 512, 1, 0),
    "m1.small": (1, 2048, 20, 0),
    "m1.large": (4, 8192, 80, 0),
    "m1.xlarge": (8, 16384, 80, 0),
    "m1.scratch": (1, 512, 1, 2),
    "m1.rootless": (1, 512, 0, 0),
    "m1.huge": (1, 4_000_000, 1, 0),
}


def seed_accounts(layout: Layout, token: str) -> None:
    keystone = Collection(f"{layout.url['keystone']}/v3", token)
    names = ("service", *CLOUDS.values())
    domain = {"domain_id": "default"}
    projects = {name: keystone.ensure("project", name, **domain) for name in names}
    users = {name: keystone.ensure("user", name, password=PASSWORD, **domain) for name in names}
    roles = {name: keystone.ensure("role", name) for name in ("admin", "service", "member", "reader")}
    for user, project, role in _ROLES:
        path = f"projects/{projects[project]}/users/{users[user]}/roles/{roles[role]}"
        rest.call("PUT", f"{keystone.url}/{path}", token=token)
    endpoints = rest.call("GET", f"{keystone.url}/endpoints", token=token)["endpoints"]
    for name, (kind, path) in _CATALOGUE.items():
        service = keystone.ensure("service", name, type=kind)
        mine = {one["interface"]: one for one in endpoints if one["service_id"] == service}
        _publish(keystone, service, layout.url[name.removesuffix("v3")] + path, mine)


def _publish(keystone: Collection, service: str, url: str, known: dict[str, Any]) -> None:
    for interface in ("public", "internal", "admin"):
        have = known.get(interface)
        if have is None:
            fields = {"service_id": service, "interface": interface, "url": url, "region_id": REGION}
            rest.call("POST", f"{keystone.url}/endpoints", {"endpoint": fields}, keystone.token)
        elif have["url"] != url:
            rest.call("PATCH", f"{keystone.url}/endpoints/{have['id']}", {"endpoint": {"url": url}}, keystone.token)


def seed_content(layout: Layout, token: str) -> None:
    nova = f"{layout.url['nova']}/v2.1"
    known = {one["name"] for one in rest.call("GET", f"{nova}/flavors", token=token)["flavors"]}
    for name, (vcpus, ram, disk, more) in FLAVORS.items():
        if name not in known:
            flavor = {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk, "OS-FLV-EXT-DATA:ephemeral": more}
            rest.call("POST", f"{nova}/flavors", {"flavor": flavor}, token)
    _zones(layout, nova, token)
    _image(f"{layout.url['glance']}/v2/images", token)
    _outer_network(Collection(f"{layout.url['neutron']}/v2.0", token))


def _zones(layout: Layout, nova: str, token: str) -> None:
    """z1: all hosts but the last one, which is z2."""
    known = {one["name"] for one in rest.call("GET", f"{nova}/os-aggregates", token=token)["aggregates"]}
    for name, hosts in {"z1": layout.hosts[:-1], "z2": layout.hosts[-1:]}.items():
        if name in known or not hosts:
            continue
        order = {"aggregate": {"name": name, "availability_zone": name}}
        made = rest.call("POST", f"{nova}/os-aggregates", order, token)["aggregate"]["id"]
        for host in hosts:
            rest.call("POST", f"{nova}/os-aggregates/{made}/action", {"add_host": {"host": host}}, token)


def _image(url: str, token: str) -> None:
    images = rest.call("GET", f"{url}?name=lab-image", token=token)["images"]
    ready = [one for one in images if one["status"] == "active"]
    for one in images:
        if one not in ready:  # of a run that was interrupted
            rest.call("DELETE", f"{url}/{one['id']}", token=token)
    if not ready:
        fields = {"name": "lab-image", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        made = rest.call("POST", url, fields, token)
        rest.call("PUT", f"{url}/{made['id']}/file", bytes(1 << 20), token)


def _outer_network(neutron: Collection) -> None:
    physical = {"provider:network_type": "flat", "provider:physical_network": "physnet1"}
    network = neutron.ensure("network", "lab-external", **{"router:external": True, **physical})
    fields = {"network_id": network, "ip_version": 4, "cidr": "198.18.0.0/16", "enable_dhcp": False}
    neutron.ensure("subnet", "lab-external-v4", **fields)


class Collection:
    """A service's things, each made only where none has its name."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def ensure(self, kind: str, name: str, **fields: Any) -> str:
        found = rest.call("GET", f"{self.url}/{kind}s?name={name}", token=self.token)[f"{kind}s"]
        if found:
            return str(found[0]["id"])
        made = rest.call("POST", f"{self.url}/{kind}s", {kind: {**fields, "name": name}}, self.token)
        return str(made[kind]["id"])
