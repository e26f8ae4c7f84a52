"""Keys, groups, stand-ins, pins and refusals."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from coterie.ring.members import Member, release
from coterie.ring.owner import Fleet
from coterie.ring.refusals import DriverUnserved, FleetEmpty, GroupUnserved
from coterie.ring.what_if import Placed, moves

D = frozenset(["d"])
KEYS = [f"node-{n}" for n in range(400)]


def test_groups_ignore_case_and_blank_matches_only_blank() -> None:
    fleet = Fleet([Member("a", "racka", D), Member("b", "", D)])
    assert {fleet.owner("RackA", "d", key).name for key in KEYS} == {"a"}
    assert {fleet.owner("", "d", key).name for key in KEYS} == {"b"}


def test_who_serves_every_group_stands_in_only_where_a_group_has_nobody() -> None:
    fleet = Fleet([Member("own", "r1", D), Member("all", "", frozenset(["d", "e"]), every_group=True)])
    assert {fleet.owner("r1", "d", key).name for key in KEYS} == {"own"}
    assert fleet.owner("r1", "e", "x").name == "all"
    assert fleet.owner("", "d", "x").name == "all"


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        ([], FleetEmpty),
        ([Member("a", "r1", D)], GroupUnserved),
        ([Member("a", "r2", frozenset(["e"]), speaks="0.0")], DriverUnserved),
    ],
)
def test_every_cause_has_its_own_error(members: list[Member], refusal: type[Exception]) -> None:
    with pytest.raises(refusal) as caught:
        Fleet(members).owner("r2", "d", "x")
    assert caught.value.remedy  # type: ignore[attr-defined]  # every refusal is a CoterieError


def test_one_pinned_member_hides_groups_from_all() -> None:
    new = [Member("a", "r1", D), Member("b", "r2", D)]
    old = Member("c", "", D, speaks="0.0.9")
    assert Fleet(new).grouped
    pinned = Fleet([*new, old])
    assert not pinned.grouped
    assert pinned.key("r1", "d") == "d"
    assert {pinned.owner("r1", "d", key).name for key in KEYS} == {"a", "b", "c"}


def test_releases_compare_by_number() -> None:
    assert release("0.10") > release("0.9.3")
    assert release("0.1") <= release("0.1.0")
    assert release("nonsense") < release("0.1")


def test_a_step_kind_goes_to_those_who_know_it() -> None:
    fleet = Fleet([Member("new", "", D, flows=frozenset(["a", "b"])), Member("old", "", D, flows=frozenset(["a"]))])
    assert {fleet.owner("", "d", key, "b").name for key in KEYS} == {"new"}
    assert {fleet.owner("", "d", key, "a").name for key in KEYS} == {"new", "old"}


def test_old_and_new_key_builders_agree_all_the_way_through_an_upgrade() -> None:
    """Three conductors, upgraded one by one under a pin, then unpinned one by one; each stage seen by two processes."""
    stages: list[list[str]] = [["0.0.9"] * 3]
    stages += [["0.0.9"] * 3 for _ in range(3)]  # the new release, pinned: it behaves as the old one
    stages += [["0.1.0"] * n + ["0.0.9"] * (3 - n) for n in range(1, 4)]
    new = [_new_owners(stage) for stage in stages]
    old = _old_owners(3)
    assert all(found == old for found in new[:-1])
    assert new[-1] != old
    script = (
        "import json, sys\nfrom tests.ring.test_fleet import _new_owners\n"
        "print(json.dumps([_new_owners(stage) for stage in json.loads(sys.argv[1])]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, json.dumps(stages)], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(told) == new


def _new_owners(stage: list[str]) -> dict[str, str]:
    """This release, whatever it is pinned to: it reads the releases off the fleet's rows."""
    fleet = Fleet([Member(f"c{n}", f"r{n % 2}", D, speaks=spoken) for n, spoken in enumerate(stage)])
    return {key: fleet.owner(f"r{hash_of(key) % 2}", "d", key).name for key in KEYS}


def _old_owners(count: int) -> dict[str, str]:
    """A release from before groups: one ring per driver, built from the names alone."""
    from coterie.ring.hash import build

    ring = build("probed", {f"c{n}": 1.0 for n in range(count)})
    return {key: ring.owner(key) for key in KEYS}


def hash_of(key: str) -> int:
    return int(key.rpartition("-")[2])


def test_what_if_counts_who_moves_where() -> None:
    before = Fleet([Member("a", "g", D), Member("b", "g", D), Member("lonely", "h", D)])
    after = Fleet([Member("a", "g", D)])
    nodes = [Placed(key, key, "g", "d") for key in KEYS] + [Placed("x", "x", "h", "d")]
    found = moves(before, after, nodes)
    assert set(found) == {("b", "a"), ("lonely", None)}
    assert found["b", "a"] == sum(before.owner("g", "d", key).name == "b" for key in KEYS)
