"""Which stemcell a plan means: the order of versions as BOSH has it, by name and by operating system."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coterie.errors import Refused
from coterie.plan.model import StemcellNow
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan
from coterie.plan.versions import age
from tests.plan.world import World, group, group_specs, manifest

BASE = manifest(group("broker", 3))

ORDERS = {
    "numbers": ["1", "1.1", "1.9", "1.10", "2", "10"],
    "pre and post": ["1.10-alpha", "1.10-rc.2", "1.10-rc.10", "1.10", "1.10+build.2", "1.10+build.10", "1.11-dev"],
    "words after numbers": ["1.1", "1.a", "1.b"],
    "numbers before words in a pre-release": ["1-1", "1-alpha", "1-alpha.1", "1"],
    "old underscores": ["3012", "3012_1", "3012.2", "3012_10"],
    "strange shapes by text, before all": ["a..b", "b--", "0.1"],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_the_order(order: list[str]) -> None:
    mixed = random.Random(1).sample(order, len(order))
    assert sorted(mixed, key=age) == order


def test_zeros_at_the_end_say_nothing() -> None:
    assert age("1") == age("1.0") == age("1.0.0") < age("1.0.1")


def test_latest_is_the_newest_and_not_the_last_that_came() -> None:
    came = [("debian", "1.10", "deb"), ("debian", "1.9", "deb"), ("other", "1.11", "deb"), ("more", "7", "ubuntu")]
    snapshot = replace(World().snapshot(), stemcells=tuple(StemcellNow(*one) for one in came))
    for words, found in (("name: debian", "debian/1.10@lab"), ("os: deb", "other/1.11@lab")):
        text = BASE.replace("name: debian, version: '1'", f"{words}, version: latest")
        assert make_plan(snapshot, group_specs(text), Options()).changes[0].subject == found


def test_an_unknown_operating_system_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Refused, match=r"with os arch, version 1 is not in the catalogue \(there: debian/1 with os deb"):
        World().plan(BASE.replace("name: debian, version: '1'", "os: arch, version: '1'"))
