"""Choosing among datastores and clusters: by chance with the free room as weight, and the same for a repeat. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import NoDiskSpace


@dataclass(frozen=True, slots=True)
class Store:
    ref: Any
    name: str
    free_mb: int
    browser: Any


def chosen(stores: Sequence[Store], seed: str, need_mb: int) -> Store:
    """A datastore with room, likelier the more it has: the same one for the same seed, so repeats agree, and
    different ones for many at once, so that they do not all run to the emptiest."""
    roomy = [store for store in stores if store.free_mb >= need_mb]
    if not roomy:
        free = ", ".join(f"{store.name}: {store.free_mb} MB" for store in stores)
        raise NoDiskSpace(
            f"no datastore has {need_mb} MB free", why=free or "no datastore matches", remedy="free space, or add one"
        )
    return max(roomy, key=lambda store: score(store.name, store.free_mb, seed))


def score(name: str, free: int, seed: str) -> tuple[float, str]:
    """Whoever has the highest wins: by chance with the free room as weight, and always the same for one seed."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    share = (int.from_bytes(digest[:8]) + 1) / 2.0**64
    # the weight is coarse on purpose: a few megabytes must not change the choice between two repeats
    return -(2.0 ** math.floor(math.log2(max(free, 0) + 1))) / math.log(share), name
