"""Capabilities between conductors and Directors of different releases."""

from __future__ import annotations

from coterie.cpi.contract import Capabilities, GroupLimit, Reason

CAN = Capabilities(
    "fake",
    frozenset({"affinity"}),
    {"vm": "atomic"},
    group_changes=frozenset({"rule"}),
    host_visibility=True,
    group_limits={"anti-affinity": GroupLimit(members_per_az=7)},
    domains={"anti-affinity": "partition"},
    client_tokens=frozenset({"vm"}),
    zone_property="zone",
    unsupported={"find": Reason("why", "page")},
)
# Release 0.1.0 fails on any other key.
KEYS_OF_0_1_0 = {
    *("driver", "policies", "kinds", "filtered", "empty_groups", "max_groups", "max_group_members", "moves_members"),
    *("group_changes", "grants", "boots_per_soft_group", "resize_disk", "snapshots", "managed_networks"),
    *("host_visibility", "settle_s", "max_parallel_calls", "unsupported"),
}


def test_what_is_published_is_read_again() -> None:
    assert Capabilities.of_published(CAN.publish()) == CAN
    assert Capabilities.of_wire(CAN.wire()) == CAN


def test_a_director_of_the_first_release_can_read_what_is_published() -> None:
    published = CAN.publish()["capabilities"]
    assert published.keys() <= KEYS_OF_0_1_0
    assert {"driver", "policies", "filtered", "moves_members", "unsupported"} <= published.keys()


def test_an_answer_of_the_first_release_is_read() -> None:
    answer = {"capabilities": {**CAN.publish()["capabilities"], "empty_groups": True, "snapshots": True}}
    found = Capabilities.of_published(answer)
    assert (found.policies, found.host_visibility, found.zone_property) == (CAN.policies, True, None)


def test_unknown_keys_are_ignored_and_missing_ones_have_their_default() -> None:
    newer = {**CAN.wire(), "teleports": True, "unsupported": {"find": {"why": "w", "citation": "c", "since": 9}}}
    assert Capabilities.of_wire(newer).unsupported == {"find": Reason("w", "c")}
    assert Capabilities.of_wire({"driver": "fake"}) == Capabilities("fake")


def test_the_one_limit_of_older_drivers_is_of_every_policy() -> None:
    answer = {"capabilities": {**Capabilities("old").publish()["capabilities"], "max_group_members": 9}}
    found = Capabilities.of_published(answer)
    assert found.group_limit("affinity") == GroupLimit(9)
    assert found.group_limit(None) == GroupLimit()
    both = Capabilities("new", max_group_members=9, group_limits={"affinity": GroupLimit(5, 3)})
    assert (both.group_limit("affinity"), both.group_limit("anti-affinity")) == (GroupLimit(5, 3), GroupLimit(9))
