"""Server groups in a plan, after changes that were carried out only in part, and groups of an operator's."""

from __future__ import annotations

import pytest

from coterie.errors import Refused
from coterie.plan.model import Plan
from coterie.plan.render import text
from tests.plan.world import World, cloud, group, manifest

STRICT = manifest(group("broker", 2, more="placement: {policy: anti-affinity, server_group: data}"))
SOFT = STRICT.replace("anti-affinity", "soft-anti-affinity")
SOFT_IN_PLACE = SOFT.replace("server_group: data", "server_group: data, recreate_on_policy_change: false")
ADOPTED = STRICT.replace("server_group: data", "server_group: data, adopt: true")


def said(plan: Plan) -> list[tuple[str, str, str]]:
    return [(change.action, change.subject, change.reason) for change in plan.changes]


@pytest.fixture
def world() -> World:
    """Strict, with a change to soft that ended when the new group could not be made."""
    world = World()
    world.deploy(STRICT)
    world.carry_out_partly(world.plan(SOFT), ["data@lab"])
    return world


def test_taking_back_a_failed_change_of_policy_touches_no_node(world: World) -> None:
    plan = world.plan(STRICT)
    assert said(plan) == [("delete", "data@lab", "it was not finished, and is not wanted any more")]
    assert not plan.destructive
    world.carry_out(plan)
    assert said(world.plan(STRICT)) == []


def test_a_failed_change_of_policy_goes_on_where_it_was(world: World) -> None:
    made, *moved, gone = said(world.plan(SOFT))
    assert made == ("create", "data@lab", "not finished last time")
    assert {(action, subject) for action, subject, _ in moved} == {("recreate", "broker/0"), ("recreate", "broker/1")}
    assert gone[:2] == ("delete", "data@lab")


def test_nodes_that_have_moved_already_stay_where_they_are(world: World) -> None:
    world.carry_out_partly(world.plan(SOFT), ["broker/1"])
    assert [(a, s) for a, s, _ in said(world.plan(SOFT)) if s.startswith("broker")] == [("recreate", "broker/1")]
    back = [(a, s) for a, s, _ in said(world.plan(STRICT)) if s.startswith("broker")]
    assert back == [("recreate", "broker/0"), ("recreate", "broker/1")]


def test_what_forbids_to_move_nodes_counts_for_a_change_that_was_begun_too(world: World) -> None:
    with pytest.raises(Refused, match=r"policy anti-affinity → soft-anti-affinity needs nodes.*forbids"):
        world.plan(SOFT_IN_PLACE)
    world.clouds["lab"] = cloud("lab", moves_members=True)
    assert {change.action for change in world.plan(SOFT_IN_PLACE).changes if change.kind == "node"} == {"update"}


def test_an_operators_group_is_adopted_and_left_never_made_nor_deleted() -> None:
    world = World()
    plan = world.plan(ADOPTED)
    assert ("adopt", "data@lab", "policy anti-affinity") in said(plan)
    assert "+ adopt    group data@lab" in text(plan)
    assert "1 to adopt" in text(plan)
    world.carry_out_partly(plan, ["data@lab"])
    assert ("adopt", "data@lab", "not finished last time") in said(world.plan(ADOPTED))
    world.deploy(ADOPTED)
    assert ("leave", "data@lab", "no instance group uses it any more") in said(world.remove())
    assert "- leave    group data@lab" in text(world.remove())
