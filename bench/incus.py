"""Deploys and deletes 30 nodes in 3 soft groups on the real Incus cluster, beside a bare parallel loop that sends the
same REST calls: every request of the driver that changes something, with the same body, to the same member. The loop
looks nothing up, remembers nothing and plans nothing. Rounds alternate, so that other work of the machine meets both.
Both have a higher priority than the members of the cluster, whose cores they share on this machine only. Prints figures
and a ratio; asserts nothing.

Usage: make bench-incus, or in a running cluster: PYTHONPATH=.:tests/cpi bench/incus.py [PARALLEL [NODES [ROUNDS]]]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from peers.incus_bed import CLUSTER, IncusBed
from tests.cpi.drivers.incus.place import config, placed, subnet
from tests.peers.incus.cluster import MEMBERS, Refused
from tests.requests.site import group, manifest

from coterie.conductor.process import Conductor
from coterie.cpi.contract import EVERY_SOURCE
from coterie.cpi.drivers.incus.client import Client

GROUPS = ("a", "b", "c")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Any
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def instance(self) -> str | None:
        """The name of the instance that it creates or changes."""
        if (self.method, self.path) == ("POST", "/instances"):
            return str(self.body["name"])
        return self.path.split("/")[2] if self.path.startswith("/instances/") else None

    def send(self) -> None:
        query = f"?{urlencode(self.query)}" if self.query else ""
        CLUSTER.call(self.method, f"/1.0{self.path}{query}", self.body, **self.headers)


@dataclass(frozen=True)
class Times:
    deploy: float
    delete: float

    @property
    def both(self) -> float:
        return self.deploy + self.delete


def main() -> None:
    os.nice(-10)
    words = [int(word) for word in sys.argv[1:]]
    parallel, nodes, rounds = (words + [12, 30, 3][len(words) :])[:3]
    print(f"{nodes} nodes in {len(GROUPS)} groups, {parallel} at a time\n")
    print(f"{'':<10}{'deploy s':>10}{'delete s':>10}{'both s':>10}")
    ours, bare = [], []
    for _ in range(rounds):
        with record() as (created, deleted):
            ours.append(show("Coterie", deploy(nodes, parallel, created, deleted)))
        bare.append(show("bare", replay(created, deleted, parallel)))
    print(f"\nCoterie over the bare loop: {sum(one.both for one in ours) / sum(one.both for one in bare):.2f}")


# -- Coterie --


@contextmanager
def record() -> Iterator[tuple[list[Request], list[Request]]]:
    """Requests that change something, of all drivers of this process: those of a deployment, and, from the first
    instance that is stopped, those of its deletion."""
    created: list[Request] = []
    deleted: list[Request] = []
    change, upload = Client.change, Client.upload

    def note(request: Request) -> None:
        is_deletion = deleted or request.method == "DELETE" or request.path.endswith("/state")
        (deleted if is_deletion else created).append(request)

    def record_change(
        self: Client,
        what: str,
        method: str,
        path: str,
        body: Any = None,
        etag: str = "",
        send_by: float = 0.0,
        **query: str,
    ) -> tuple[Any, str]:
        note(Request(method, path, body, query, {}))
        return change(self, what, method, path, body, etag, send_by, **query)

    def record_upload(self: Client, what: str, path: str, body: Iterator[bytes], headers: Mapping[str, str]) -> None:
        pieces = list(body)
        note(Request("POST", path, b"".join(pieces), {}, headers))
        upload(self, what, path, iter(pieces), headers)

    Client.change, Client.upload = record_change, record_upload  # type: ignore[method-assign]
    try:
        yield created, deleted
    finally:
        Client.change, Client.upload = change, upload  # type: ignore[method-assign]


def deploy(nodes: int, parallel: int, created: list[Request], deleted: list[Request]) -> Times:
    """From an accepted manifest to nodes that are up, and from there to an empty cloud."""
    policy = "placement: {policy: soft-anti-affinity}"
    text = manifest(*(group(name, nodes // len(GROUPS), policy, azs="z1") for name in GROUPS))
    text = text.replace("max_in_flight: 50", f"max_in_flight: {parallel}").replace("canaries: 1", "canaries: 0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bed = IncusBed(folder)
        bed.more = {"socket": CLUSTER.socket()}  # as the bare loop, past the proxy that bends answers
        try:
            with placed(folder, bed) as place:
                place.poll_s = 0.1  # as the CLI: looking on costs time of the same cores
                place.config = config(
                    bed,
                    azs=[{"name": "z1", "cloud": "lab", "cloud_properties": {"cluster_group": _everywhere()}}],
                    networks=[{"name": "net", "subnets": [subnet("z1")]}],
                )
                place.conductor.drain()
                place.conductor = Conductor(
                    place.ledger,
                    "bench",
                    state_folder=place.folder,
                    workers=32,
                    per_cloud=parallel,
                    credential_sources=(EVERY_SOURCE,),
                )
                place.conductor.start()
                began = time.monotonic()
                place.deploy(text)
                middle = time.monotonic()
                place.delete()
                return Times(middle - began, time.monotonic() - middle)
        finally:
            bed.close()


def _everywhere() -> str:
    """One az with all members: over several a rollout goes az by az, which the bare loop does not."""
    with suppress(Refused):  # it is there
        CLUSTER.call("POST", "/1.0/cluster/groups", {"name": "everywhere", "members": list(MEMBERS)})
    return "everywhere"


# -- the bare loop --


def replay(created: Sequence[Request], deleted: Sequence[Request], parallel: int) -> Times:
    """The stemcell and the groups first, then instance by instance; the other way round at the end."""
    began = time.monotonic()
    send([one for one in created if one.instance is None])
    send_by_instance(created, parallel)
    middle = time.monotonic()
    send_by_instance(deleted, parallel)
    send([one for one in deleted if one.instance is None])
    return Times(middle - began, time.monotonic() - middle)


def send_by_instance(requests: Sequence[Request], parallel: int) -> None:
    chains: dict[str, list[Request]] = {}
    for request in requests:
        if request.instance is not None:
            chains.setdefault(request.instance, []).append(request)
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(send, chains.values()))


def send(requests: Sequence[Request]) -> None:
    for request in requests:
        request.send()


def show(name: str, times: Times) -> Times:
    print(f"{name:<10}{times.deploy:>10.1f}{times.delete:>10.1f}{times.both:>10.1f}", flush=True)
    return times


if __name__ == "__main__":
    main()
