"""Keys, groups, stand-ins, pins and refusals."""

from __future__ import annotations

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


def test_a_conductor_of_every_group_serves_only_groups_without_their_own() -> None:
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


def test_what_if_counts_who_moves_where() -> None:
    before = Fleet([Member("a", "g", D), Member("b", "g", D), Member("lonely", "h", D)])
    after = Fleet([Member("a", "g", D)])
    nodes = [Placed(key, key, "g", "d") for key in KEYS] + [Placed("x", "x", "h", "d")]
    found = moves(before, after, nodes)
    assert set(found) == {("b", "a"), ("lonely", None)}
    assert found["b", "a"] == sum(before.owner("g", "d", key).name == "b" for key in KEYS)
