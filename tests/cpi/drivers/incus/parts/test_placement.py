"""The choice of a member is a pure function: its promises hold whatever is there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cpi.contract import NoPlacement
from coterie.cpi.drivers.incus.placement import Place, choose

NAMES = ("a", "b", "c", "d")
places = st.lists(
    st.builds(
        Place, st.sampled_from(NAMES), load=st.integers(0, 9), why_not=st.sampled_from(["", "", "it is offline"])
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda place: place.name,
)
taken = st.lists(st.sampled_from(NAMES), max_size=6)


def chosen(policy: str | None, given_places: list[Place], members: list[str], allowed: list[str] | None = None) -> str:
    try:
        return choose(policy, given_places, members, allowed)
    except NoPlacement as error:
        assert all(place.name in error.why for place in given_places)
        return ""


@given(places, taken)
def test_anti_affinity_never_shares_a_member_and_fails_only_if_it_must(all_of: list[Place], members: list[str]) -> None:
    found = chosen("anti-affinity", all_of, members)
    free = {place.name for place in all_of if not place.why_not} - set(members)
    assert found in free if free else found == ""


@given(places, taken)
def test_affinity_stays_with_its_members(all_of: list[Place], members: list[str]) -> None:
    found = chosen("affinity", all_of, members)
    up = {place.name for place in all_of if not place.why_not}
    fit = up if not members else up & set(members) if len(set(members)) == 1 else set()
    assert found in fit if fit else found == ""


@given(places, taken)
def test_the_soft_policies_prefer_and_never_refuse(all_of: list[Place], members: list[str]) -> None:
    up = [place.name for place in all_of if not place.why_not]
    count = Counter(members)
    apart, together = chosen("soft-anti-affinity", all_of, members), chosen("soft-affinity", all_of, members)
    assert bool(apart) == bool(together) == bool(up)
    if up:
        assert count[apart] == min(count[name] for name in up)
        assert count[together] == max(count[name] for name in up)


@given(places, taken, st.lists(st.sampled_from(NAMES), max_size=3))
def test_host_affinity_uses_the_named_members_only(all_of: list[Place], members: list[str], allowed: list[str]) -> None:
    found = chosen("host-affinity", all_of, members, allowed)
    fit = {place.name for place in all_of if not place.why_not} & set(allowed)
    assert found in fit if fit else found == ""


@given(places)
def test_without_a_policy_the_emptiest_is_chosen(all_of: list[Place]) -> None:
    up = [place for place in all_of if not place.why_not]
    found = chosen(None, all_of, [])
    assert found == (min(up, key=lambda place: (place.load, place.name)).name if up else "")


@given(st.integers(2, 4), st.integers(0, 8))
def test_as_many_as_there_are_members_fit_and_no_more(count: int, more: int) -> None:
    all_of = [Place(name) for name in NAMES[:count]]
    members: list[str] = []
    for _ in range(count):
        members.append(choose("anti-affinity", all_of, members))
    assert len(set(members)) == count
    with pytest.raises(NoPlacement):
        choose("anti-affinity", all_of, members * (more + 1))
