"""Both rings: the same owner in every process, balance, and that nothing moves without need."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ring.hash import ALGORITHMS, build

NAMES = st.sets(st.text("abc-19.", min_size=1, max_size=6), min_size=1, max_size=12)
KEYS = [f"{n:08x}-0000-4000-8000-000000000000" for n in range(300)]
ALGORITHM = st.sampled_from(ALGORITHMS)


def owners(algorithm: str, weights: dict[str, float], keys: list[str] = KEYS) -> dict[str, str]:
    ring = build(algorithm, weights)
    return {key: ring.owner(key) for key in keys}


@given(ALGORITHM, NAMES, st.randoms())
@settings(max_examples=40, deadline=None)
def test_the_order_of_arrival_does_not_matter(algorithm: str, names: set[str], chance: random.Random) -> None:
    shuffled = list(names)
    chance.shuffle(shuffled)
    assert owners(algorithm, dict.fromkeys(shuffled, 1.0)) == owners(algorithm, dict.fromkeys(sorted(names), 1.0))


@given(st.sampled_from(["probed", "ironic"]), NAMES, st.data())
@settings(max_examples=60, deadline=None)
def test_who_leaves_moves_only_its_own_keys(algorithm: str, names: set[str], data: st.DataObject) -> None:
    # Names that repeat each other share points of Ironic's ring, by its own definition; they are tested elsewhere.
    names = {f"{name}#{number}" for number, name in enumerate(sorted(names))}
    gone = data.draw(st.sampled_from(sorted(names)))
    before = owners(algorithm, dict.fromkeys(names, 1.0))
    left = names - {gone}
    if not left:
        return
    after = owners(algorithm, dict.fromkeys(left, 1.0))
    assert all(after[key] == owner for key, owner in before.items() if owner != gone)
    assert gone not in after.values()


@given(NAMES, st.sampled_from([0.5, 2.0, 4.0]), st.data())
@settings(max_examples=40, deadline=None)
def test_more_weight_only_takes_and_less_only_gives(names: set[str], weight: float, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(sorted(names)))
    even = owners("probed", dict.fromkeys(names, 1.0))
    uneven = owners("probed", {**dict.fromkeys(names, 1.0), chosen: weight})
    moved = {key for key in KEYS if even[key] != uneven[key]}
    assert all((uneven if weight > 1 else even)[key] == chosen for key in moved)


def test_the_default_is_spread_better_than_ironic() -> None:
    keys = [f"{random.Random(n).getrandbits(128):032x}" for n in range(20_000)]
    spread = {name: statistics.mean(worst(name, keys, fleet) for fleet in range(5)) for name in ALGORITHMS}
    assert spread["probed"] < spread["ironic"]
    assert spread["probed"] < 1.35


def worst(algorithm: str, keys: list[str], fleet: int) -> float:
    names = [f"fleet{fleet}-conductor-{n:03d}" for n in range(20)]
    counts = Counter(owners(algorithm, dict.fromkeys(names, 1.0), keys).values())
    return max(counts.values()) / (len(keys) / len(names))


def test_weights_are_kept() -> None:
    keys = [f"{random.Random(n).getrandbits(128):032x}" for n in range(30_000)]
    weights = {f"c{n:02d}": float(1 << (n % 3)) for n in range(21)}
    counts = Counter(owners("probed", weights, keys).values())
    fair = len(keys) / sum(weights.values())
    for weight in (1.0, 2.0, 4.0):
        mine = [counts[name] / weight for name in weights if weights[name] == weight]
        assert 0.9 * fair < statistics.mean(mine) < 1.1 * fair


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_process_gives_the_same_owners(algorithm: str) -> None:
    names = [f"host-{n}" for n in range(9)]
    text = (
        "from coterie.ring.hash import build\n"
        f"ring = build({algorithm!r}, dict.fromkeys({names[::-1]!r}, 1.0))\n"
        f"print(','.join(ring.owner(str(n)) for n in range(200)))"
    )
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.strip()
    ring = build(algorithm, dict.fromkeys(names, 1.0))
    assert told == ",".join(ring.owner(str(n)) for n in range(200))
