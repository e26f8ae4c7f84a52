"""Deploys and deletes 30 nodes in 3 soft groups on the real OpenStack, beside bare loops of keystoneauth1.

The bare loops make the same things (image, groups, ports, servers) and wait for them, one after another and with the
parallelism that Coterie is given; nothing of theirs is marked, looked up, remembered or spread with care. All go
through the same counting proxy. Prints figures and ratios; asserts nothing.

Usage: make bench-openstack, or in a running control plane: PYTHONPATH=.:tests/cpi bench/openstack.py [PARALLEL [NODES]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.openstack.place import Place, clear_images, config
from tests.peers.openstack.layout import PASSWORD
from tests.peers.openstack.plane import plane
from tests.requests.site import group, manifest, site

from coterie.conductor.process import Conductor
from coterie.ledger.store import Ledger

GROUPS = ("a", "b", "c")
POLL_S = 0.5  # as the driver's default
NOVA = {"OpenStack-API-Version": "compute 2.79"}


def main() -> None:
    words = [int(word) for word in sys.argv[1:]]
    parallel, nodes = (words + [12, 30][len(words) :])[:2]
    print(f"{nodes} nodes in {len(GROUPS)} groups, {parallel} at a time\n")
    print(f"{'':<22}{'deploy s':>9}{'delete s':>9}{'both s':>8}{'calls/node':>11}  hosts of each group")
    slow = measured("bare, one by one", nodes, lambda bed: Bare(bed, nodes, 1))
    quick = measured(f"bare, {parallel} at a time", nodes, lambda bed: Bare(bed, nodes, parallel))
    ours = measured("Coterie", nodes, lambda bed: Ours(bed, nodes, parallel))
    print(
        f"\nCoterie over the parallel bare loop: {100 * (ours / quick - 1):+.1f} %; over one by one: {ours / slow:.2f}"
    )


def measured(name: str, nodes: int, work: Callable[[OpenstackBed], Any]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        bed = OpenstackBed(Path(folder))
        assert bed.tenant.network  # furniture is no part of the race
        subject = work(bed)
        bed.front.forget()
        began = time.monotonic()
        subject.deploy()
        middle = time.monotonic()
        hosts = _hosts(bed)
        again = time.monotonic()
        subject.delete()
        deploy, delete = middle - began, time.monotonic() - again
        calls = len(bed.front.calls) / nodes
        subject.close()
        bed.close()
    print(f"{name:<22}{deploy:>9.1f}{delete:>9.1f}{deploy + delete:>8.1f}{calls:>11.1f}  {hosts}")
    return deploy + delete


def _hosts(bed: OpenstackBed) -> str:
    where = bed.operator.hosts()
    found = []
    for one in bed.operator.listed("server_group"):
        counts = Counter(where[member] for member in one["members"])
        found.append("+".join(str(count) for _, count in counts.most_common()))
    return " ".join(found)


class Bare:
    """A plain script that only creates the machines."""

    def __init__(self, bed: OpenstackBed, nodes: int, parallel: int) -> None:
        domain = {"user_domain_name": "Default", "project_domain_name": "Default"}
        auth = Password(
            bed.front.auth_url, username=bed.tenant.user, password=PASSWORD, project_name=bed.tenant.project, **domain
        )
        self._session = Session(auth)
        self._network = bed.tenant.network
        self._nodes, self._pool = nodes, ThreadPoolExecutor(parallel)
        self._made: list[tuple[str, str]] = []
        self._groups: list[str] = []

    def deploy(self) -> None:
        fields = {"name": "bare", "disk_format": "raw", "container_format": "bare"}
        self._image = self._post("image", "/v2/images", fields)["id"]
        data = {"Content-Type": "application/octet-stream"}
        self._ask("PUT", "image", f"/v2/images/{self._image}/file", data=b"image", headers=data)
        flavors = self._ask("GET", "compute", "/flavors").json()["flavors"]
        self._flavor = next(one["id"] for one in flavors if one["name"] == "m1.tiny")
        for name in GROUPS:
            order = {"server_group": {"name": name, "policy": "soft-anti-affinity"}}
            self._groups.append(self._post("compute", "/os-server-groups", order)["server_group"]["id"])
        self._made = list(self._pool.map(self._boot, range(self._nodes)))

    def _boot(self, number: int) -> tuple[str, str]:
        address = [{"ip_address": f"10.20.1.{number + 10}"}]
        port = self._post("network", "/v2.0/ports", {"port": {"network_id": self._network, "fixed_ips": address}})
        wanted = port["port"]["id"]
        server = {
            "name": f"bare-{number}",
            "imageRef": self._image,
            "flavorRef": self._flavor,
            "networks": [{"port": wanted}],
            "availability_zone": "z1",
        }
        hints = {"group": self._groups[number % len(GROUPS)]}
        made = self._post("compute", "/servers", {"server": server, "os:scheduler_hints": hints})["server"]["id"]
        while self._ask("GET", "compute", f"/servers/{made}").json()["server"]["status"] != "ACTIVE":
            time.sleep(POLL_S)
        return made, wanted

    def delete(self) -> None:
        list(self._pool.map(self._remove, self._made))
        for one in self._groups:
            self._ask("DELETE", "compute", f"/os-server-groups/{one}")

    def _remove(self, made: tuple[str, str]) -> None:
        server, port = made
        self._ask("DELETE", "compute", f"/servers/{server}")
        while self._ask("GET", "compute", f"/servers/{server}", raise_exc=False).status_code != 404:
            time.sleep(POLL_S)
        self._ask("DELETE", "network", f"/v2.0/ports/{port}")

    def close(self) -> None:
        self._ask("DELETE", "image", f"/v2/images/{self._image}")
        self._pool.shutdown()

    def _post(self, service: str, path: str, body: Any) -> Any:
        return self._ask("POST", service, path, json=body).json()

    def _ask(self, verb: str, service: str, path: str, **more: Any) -> Any:
        headers = {**(NOVA if service == "compute" else {}), **more.pop("headers", {})}
        return self._session.request(path, verb, endpoint_filter={"service_type": service}, headers=headers, **more)


class Ours:
    """Planner, ledger and one conductor, in this process."""

    def __init__(self, bed: OpenstackBed, nodes: int, parallel: int) -> None:
        bed.more["poll_s"] = POLL_S
        self._bed = bed
        folder = bed.folder / "site"
        folder.mkdir()
        self._ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
        self._context = site(self._ledger, folder)
        self._place = self._context.__enter__()
        self._place.conductor.drain()
        self._place.conductor = Conductor(self._ledger, "bench", state_folder=folder, workers=32, per_cloud=parallel)
        self._place.conductor.start()
        self._place.__class__ = Place
        assert isinstance(self._place, Place)
        self._place.bed, self._place.config, self._place.patience_s = bed, config(bed), 1800.0
        each = nodes // len(GROUPS)
        soft = "placement: {policy: soft-anti-affinity}"
        self._text = manifest(*(group(name, each, soft, azs="z1") for name in GROUPS)).replace(
            "canaries: 1", "canaries: 0"
        )

    def deploy(self) -> None:
        self._place.deploy(self._text)

    def delete(self) -> None:
        self._place.delete()

    def close(self) -> None:
        assert isinstance(self._place, Place)
        clear_images(self._place, self._bed)
        self._context.__exit__(None, None, None)
        self._ledger.close()


if __name__ == "__main__":
    plane()
    main()
