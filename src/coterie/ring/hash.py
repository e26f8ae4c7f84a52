"""Two ways to spread keys over hosts. Pure: the same hosts give the same owners in every process, in any order.

`IronicRing` equals OpenStack Ironic's mapping bit for bit, for any of its settings. `ProbedRing` (the default) asks
three places of the ring for every key and takes the nearest host, which spreads better, and builds and looks up faster;
it knows weights.
"""

from __future__ import annotations

import hashlib
import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol

PROBED, IRONIC = "probed", "ironic"
ALGORITHMS = (PROBED, IRONIC)
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
_LARGEST_EXPONENT = 12
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 100.0

_POINTS = 32  # of a host of weight 1
_OWNER = 0xFFFF  # the low bits of a point tell its host: one flat list of numbers sorts and searches fastest
_CIRCLE = (1 << 64) - 1
_three = struct.Struct(">3Q").unpack


class Ring(Protocol):
    def owner(self, key: str) -> str:
        """The host of this key. There must be at least one host."""


def build(algorithm: str, weights: Mapping[str, float]) -> Ring:
    if algorithm == PROBED:
        return ProbedRing(weights)
    exponent, digest = ironic_settings(algorithm)
    return IronicRing(weights, exponent=exponent, algorithm=digest)


def ironic_settings(algorithm: str) -> tuple[int, str]:
    """Ironic's `hash_partition_exponent` and `hash_ring_algorithm` of a ring "ironic" or "ironic:EXPONENT:HASH"."""
    if algorithm == IRONIC:
        return 5, "md5"
    found = re.fullmatch(rf"{IRONIC}:(\d{{1,2}}):(\w+)", algorithm)
    if not found or int(found[1]) > _LARGEST_EXPONENT or found[2] not in _HASHES:
        limits = f"with an exponent of 0 to {_LARGEST_EXPONENT} and one of {', '.join(_HASHES)}"
        raise ValueError(f"must be {PROBED}, {IRONIC} or {IRONIC}:EXPONENT:HASH {limits}")
    return int(found[1]), found[2]


def common_algorithm(asked: Iterable[str]) -> str:
    """What members use of what each is set to: Ironic's mapping only where all are set to the same one."""
    wanted = set(asked)
    algorithm = wanted.pop() if len(wanted) == 1 else PROBED
    try:
        ironic_settings(algorithm)
    except ValueError:
        return PROBED
    return algorithm


class ProbedRing:
    def __init__(self, weights: Mapping[str, float]) -> None:
        self._hosts = sorted(weights)
        if len(self._hosts) > _OWNER:
            raise ValueError(f"a ring holds at most {_OWNER} hosts")
        points: list[int] = []
        for number, host in enumerate(self._hosts):
            points += [point | number for point in _probed_points(host, _count(weights[host]))]
        points.sort()
        self._points = points

    def owner(self, key: str) -> str:
        points, size = self._points, len(self._points)
        one, two, three = _three(hashlib.blake2b(key.encode(), digest_size=24).digest())
        # An index past the end minus the size is 0: the ring closes without a test.
        point = points[bisect_right(points, one) - size]
        other = points[bisect_right(points, two) - size]
        third = points[bisect_right(points, three) - size]
        distance = (point - one) & _CIRCLE
        if (other - two) & _CIRCLE < distance:
            point, distance = other, (other - two) & _CIRCLE
        if (third - three) & _CIRCLE < distance:
            point = third
        return self._hosts[point & _OWNER]


class IronicRing:
    def __init__(self, hosts: Iterable[str], *, exponent: int = 5, algorithm: str = "md5") -> None:
        self._algorithm = algorithm
        owners: dict[int, str] = {}
        # Names that repeat each other (c1, c1c1) share points: the last in order owns them on every conductor.
        for host in sorted(hosts):
            owners.update(dict.fromkeys(_ironic_points(host, 1 << exponent, algorithm), host))
        self._owners = owners
        self._points = sorted(owners)

    def owner(self, key: str) -> str:
        digest = hashlib.new(self._algorithm, key.encode(), usedforsecurity=False).digest()
        place = bisect_right(self._points, int.from_bytes(digest, "big"))
        return self._owners[self._points[place - len(self._points)]]


def _count(weight: float) -> int:
    return max(1, round(_POINTS * weight))


@lru_cache(maxsize=16_384)
def _probed_points(host: str, count: int) -> tuple[int, ...]:
    # More weight appends points and moves none.
    raw = hashlib.shake_128(host.encode()).digest(8 * count)
    return tuple([point & ~_OWNER for point in struct.unpack(f">{count}Q", raw)])


@lru_cache(maxsize=16_384)
def _ironic_points(host: str, count: int, algorithm: str) -> tuple[int, ...]:
    """H(name written k times) for k = 2 … count + 1."""
    name = host.encode()
    digest = hashlib.new(algorithm, name, usedforsecurity=False)
    raw = []
    for _ in range(count):
        digest.update(name)
        raw.append(digest.digest())
    return tuple([int.from_bytes(one, "big") for one in raw])
