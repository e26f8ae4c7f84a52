"""The ring of a release from before conductor groups, as a program: one ring per driver, nothing of ours imported.

Reads {"ring", "conductors": {name: [drivers]}, "nodes": {uuid: driver}} and prints {uuid: conductor}. Slow and plain on
purpose: it looks at every point of the ring, so that it shares no cleverness with the code that it is compared to.
"""

from __future__ import annotations

import hashlib
import json
import sys

CIRCLE = 1 << 64


def ironic_owner(hosts: list[str], key: str) -> str:
    points: dict[int, str] = {}
    for host in sorted(hosts):
        for times in range(2, 34):
            points[int(hashlib.md5((host * times).encode()).hexdigest(), 16)] = host
    place = int(hashlib.md5(key.encode()).hexdigest(), 16)
    return points[min((point for point in points if point > place), default=min(points))]


def probed_owner(hosts: list[str], key: str) -> str:
    points: list[tuple[int, str]] = []
    for number, host in enumerate(sorted(hosts)):
        raw = hashlib.shake_128(host.encode()).digest(8 * 32)
        numbers = [int.from_bytes(raw[at : at + 8], "big") for at in range(0, len(raw), 8)]
        points += [(point // 65536 * 65536 + number, host) for point in numbers]
    digest = hashlib.blake2b(key.encode(), digest_size=24).digest()
    probes = [int.from_bytes(digest[at : at + 8], "big") for at in (0, 8, 16)]
    nearest = min(
        ((point - probe) % CIRCLE, order, host) for order, probe in enumerate(probes) for point, host in points
    )
    return nearest[2]


def main() -> None:
    asked = json.load(sys.stdin)
    owner = {"ironic": ironic_owner, "probed": probed_owner}[asked["ring"]]
    found = {}
    for uuid, driver in asked["nodes"].items():
        hosts = [name for name, drivers in asked["conductors"].items() if driver in drivers]
        found[uuid] = owner(hosts, uuid)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
