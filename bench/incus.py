"""Deploys and deletes 30 nodes in 3 soft groups on the real Incus cluster, beside a bare parallel loop of the same REST
calls: create, configure, start; stop, delete. Nothing of the bare loop is marked, looked up, remembered or spread with
care. Prints figures and a ratio; asserts nothing.

Usage: make bench-incus, or in a running cluster: PYTHONPATH=.:tests/cpi bench/incus.py [PARALLEL [NODES]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from peers.incus_bed import CLUSTER, IncusBed
from tests.cpi.drivers.incus.place import config, placed, subnet
from tests.peers.incus.cluster import MEMBERS, NETWORK, POOL, Refused
from tests.requests.site import group, manifest

from coterie.conductor.process import Conductor
from coterie.cpi.contract import EVERY_SOURCE

GROUPS = ("a", "b", "c")


def main() -> None:
    words = [int(word) for word in sys.argv[1:]]
    parallel, nodes = (words + [12, 30][len(words) :])[:2]
    print(f"{nodes} nodes in {len(GROUPS)} groups, {parallel} at a time\n")
    print(f"{'':<10}{'deploy s':>10}{'delete s':>10}{'both s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        bed = IncusBed(Path(folder))
        try:
            quick = _bare(bed, nodes, parallel)
            ours = _ours(bed, Path(folder), nodes, parallel)
        finally:
            bed.close()
    print(f"\nCoterie over the bare loop: {ours / quick:.2f}")


def _bare(bed: IncusBed, nodes: int, parallel: int) -> float:
    path, properties = bed.image()
    image = bed.open().create_stemcell(path, properties, mark=_mark(bed))

    def create(number: int) -> None:
        body = {
            "name": f"bare-{number}",
            "source": {"type": "image", "fingerprint": image},
            "profiles": [],
            "config": {"limits.cpu": "1", "boot.autostart": "false"},
            "devices": {
                "root": {"type": "disk", "path": "/", "pool": POOL},
                "eth0": {"type": "nic", "name": "eth0", "network": NETWORK},
            },
        }
        path = f"/1.0/instances/bare-{number}"
        CLUSTER.call("POST", f"/1.0/instances?target={MEMBERS[number % len(MEMBERS)]}", body)
        CLUSTER.call("PATCH", path, {"config": {"user.user-data": "{}"}})
        CLUSTER.call("PUT", f"{path}/state", {"action": "start"})

    def delete(number: int) -> None:
        path = f"/1.0/instances/bare-{number}"
        CLUSTER.call("PUT", f"{path}/state", {"action": "stop", "force": True})
        CLUSTER.call("DELETE", path)

    with ThreadPoolExecutor(parallel) as pool:
        began = time.monotonic()
        list(pool.map(create, range(nodes)))
        middle = time.monotonic()
        list(pool.map(delete, range(nodes)))
        took = _print("bare", began, middle, time.monotonic())
    bed.open().delete_stemcell(image)
    return took


def _ours(bed: IncusBed, folder: Path, nodes: int, parallel: int) -> float:
    policy = "placement: {policy: soft-anti-affinity}"
    text = manifest(*(group(name, nodes // len(GROUPS), policy, azs="z1") for name in GROUPS))
    text = text.replace("max_in_flight: 50", f"max_in_flight: {parallel}").replace("canaries: 1", "canaries: 0")
    bed.more = {"socket": CLUSTER.socket()}  # as the bare loop, past the proxy that bends answers
    with placed(folder, bed) as place:
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
        return _print("Coterie", began, middle, time.monotonic())


def _everywhere() -> str:
    """One az with all members: over several a rollout goes az by az, which the bare loop does not."""
    with suppress(Refused):  # it is there
        CLUSTER.call("POST", "/1.0/cluster/groups", {"name": "everywhere", "members": list(MEMBERS)})
    return "everywhere"


def _print(name: str, began: float, middle: float, end: float) -> float:
    print(f"{name:<10}{middle - began:>10.1f}{end - middle:>10.1f}{end - began:>10.1f}", flush=True)
    return end - began


def _mark(bed: IncusBed) -> Any:
    from coterie.cpi.contract import Mark
    from coterie.ids import Ids

    return Mark(bed.director_uuid, Ids().intent())


if __name__ == "__main__":
    main()
