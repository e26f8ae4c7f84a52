"""`ring: ironic` against answers recorded from a real Ironic, and what was wrong there and must not be here."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import UsageError
from coterie.ring.hash import IronicRing
from coterie.ring.members import Member, group_name
from coterie.ring.owner import Fleet
from coterie.ring.verify import verify
from coterie.settings import values

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())


def test_every_recorded_look_up_and_ring_is_ours_too() -> None:
    verdict = verify(VECTORS)
    assert verdict.differences == ()
    expected = sum(len(case["lookups"]) + len(case["rings"]) for case in VECTORS["fleets"])
    assert verdict.passed == expected
    assert expected > 1431


def test_a_wrong_answer_is_told() -> None:
    changed: Any = copy.deepcopy(VECTORS)
    changed["fleets"][1]["lookups"][0]["expect"] = {"host": "somebody"}
    verdict = verify(changed)
    (difference,) = verdict.differences
    assert (difference.fleet, difference.expected) == ("c3-case", "somebody")


@pytest.mark.parametrize("document", [[], {}, {"defaults": {}, "fleets": [{}]}, {"fleets": 3}, None])
def test_another_format_is_refused(document: Any) -> None:
    with pytest.raises(UsageError):
        verify(document)


def test_the_fleet_maps_as_the_bare_ring_does() -> None:
    members = [Member(f"h{n}", "g", frozenset(["d"]), algorithm="ironic") for n in range(7)]
    ring = IronicRing([member.name for member in members])
    fleet = Fleet(members)
    keys = [f"node-{n}" for n in range(500)]
    assert [fleet.owner("G", "d", key).name for key in keys] == [ring.owner(key) for key in keys]


def test_one_member_that_does_not_ask_for_ironic_decides_for_all() -> None:
    members = [Member("a", "", frozenset(["d"]), algorithm="ironic"), Member("b", "", frozenset(["d"]))]
    assert Fleet(members).table("", "d").algorithm == "probed"
    assert Fleet(members[:1]).table("", "d").algorithm == "ironic"


def test_every_setting_that_is_verified_is_one_that_the_live_ring_can_have() -> None:
    """Members set to Ironic's other exponent and hash map as the recorded fleet with these settings did."""
    (case,) = [one for one in VECTORS["fleets"] if one["fleet"]["name"] == "c12-exp8-sha256"]
    setting = values.ring("ironic:8:sha256")
    members = [
        Member(one["host"], one["group"].lower(), frozenset(one["drivers"]), algorithm=setting)
        for one in case["fleet"]["conductors"]
        if one.get("online", True)
    ]
    asked = [one for one in case["lookups"] if one["use_groups"] and "host" in one["expect"]]
    assert len(asked) > 20
    for one in asked:
        assert Fleet(members).owner(one["group"], one["driver"], one["uuid"]).name == one["expect"]["host"]
    mixed = [*members, Member("other", members[0].group, members[0].drivers, algorithm="ironic")]
    assert Fleet(mixed).table(members[0].group, next(iter(members[0].drivers))).algorithm == "probed"


@pytest.mark.parametrize(
    "config", [{"hash_partition_exponent": 20}, {"hash_ring_algorithm": "crc32"}, {"replicas": 2}], ids=str
)
def test_settings_that_the_live_ring_cannot_have_are_refused(config: dict[str, Any]) -> None:
    changed: Any = copy.deepcopy(VECTORS)
    changed["fleets"][1]["fleet"]["config"] = config
    with pytest.raises(UsageError, match="c3-case was recorded with settings that no ring of ours can have"):
        verify(changed)


def test_names_that_repeat_each_other_have_one_owner_in_every_order() -> None:
    names = ["c1", "c1c1", "c1c1c1"]
    keys = [str(n) for n in range(2000)]
    answers = {tuple(map(IronicRing(order).owner, keys)) for order in itertools.permutations(names)}
    assert len(answers) == 1


@pytest.mark.parametrize("case", VECTORS["group_name_validation"], ids=lambda case: repr(case["name"])[:20])
def test_group_names_are_judged_as_ironic_does_but_for_its_two_holes(case: dict[str, Any]) -> None:
    name = case["name"]
    if not isinstance(name, str):
        return  # typed out at the edges
    good = case["accepted_by_validator"] and "\n" not in name and len(name) <= 255
    if good:
        assert group_name(name) == name.lower()
    else:
        with pytest.raises(UsageError):
            group_name(name)
