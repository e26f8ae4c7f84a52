"""Our rings beside tooz's (which Ironic uses), in the same run: build, look-up, balance, keys moved by a leave.

Needs the extra `bench`. Prints figures; asserts nothing.
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from tooz import hashring

from coterie.ring import hash as hashing
from coterie.ring.hash import IronicRing, ProbedRing

NODES = 100_000
HEADS = ("conductors", "ring", "build ms", "again ms", "pick µs", "max/mean", "moved", "needless")
Look = Callable[[str], str]


def probed(names: list[str]) -> Look:
    return ProbedRing(dict.fromkeys(names, 1.0)).owner


def ironic(names: list[str]) -> Look:
    return IronicRing(names).owner


def tooz(names: list[str]) -> Look:
    ring: Any = hashring.HashRing(names, partitions=32)
    return lambda key: str(next(iter(ring.get_nodes(key.encode(), replicas=1))))


def build_ms(make: Callable[[list[str]], Look], names: list[str]) -> tuple[float, float]:
    """Cold (a fresh process), and again (one member went)."""
    cold = []
    for _ in range(3):
        hashing._probed_points.cache_clear()
        hashing._ironic_points.cache_clear()
        cold.append(_cpu(lambda: make(names)))
    return min(cold) * 1e3, min(_cpu(lambda: make(names[:-1])) for _ in range(3)) * 1e3


def _cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure(make: Callable[[list[str]], Look], names: list[str], keys: list[str]) -> list[float]:
    cold, warm = build_ms(make, names)
    look, sample = make(names), keys[:5000]
    pick = min(_cpu(lambda: [look(key) for key in sample]) for _ in range(3)) / len(sample) * 1e6
    if make is tooz:  # its placement is `ironic`'s: seen on the sample, and then counted there, which is faster
        same = ironic(names)
        if [look(key) for key in sample] != [same(key) for key in sample]:
            raise SystemExit("tooz and `ring: ironic` disagree")
        make, look = ironic, same
    owners = {key: look(key) for key in keys}
    counts = Counter(owners.values())
    return [cold, warm, pick, max(counts.values()) / (len(keys) / len(names)), *leave(make, names, owners, counts)]


def leave(
    make: Callable[[list[str]], Look], names: list[str], owners: dict[str, str], counts: Counter[str]
) -> tuple[float, int]:
    """The busiest member leaves: keys moved against an even share, and how many of them moved without need."""
    gone = counts.most_common(1)[0][0]
    look = make([name for name in names if name != gone])
    moved = [key for key, owner in owners.items() if look(key) != owner]
    return len(moved) / (len(owners) / len(names)), sum(owners[key] != gone for key in moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 100, 1000, 5000])
    chance = random.Random(1)
    keys = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(NODES)]
    print(" ".join(f"{head:>10}" for head in HEADS))
    for size in parser.parse_args().sizes:
        names = [f"conductor-{n:04d}" for n in range(size)]
        for make in (tooz, ironic, probed):
            figures = measure(make, names, keys)
            print(f"{size:>10} {make.__name__:>10} " + " ".join(f"{figure:>10.2f}" for figure in figures))


if __name__ == "__main__":
    main()
