"""Whatever the manifest and its history: a plan reaches its wish, then rests; and its order keeps the rules."""

from __future__ import annotations

import ipaddress

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coterie.errors import Refused
from coterie.plan.stages import Stage, stages
from tests.plan.world import World, group, manifest, wishes

# Manifests are slow to load: a failing history is shown as found rather than shrunk for minutes.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_POLICIES = st.sampled_from(["anti-affinity", "soft-anti-affinity", "affinity", "soft-affinity"])


@st.composite
def one_group(draw: st.DrawFn, name: str, policy: str | None) -> str:
    parts = []
    if policy:
        parts.append(f"placement: {{policy: {policy}, server_group: shared}}")
    elif draw(st.booleans()):
        parts.append(f"placement: {{policy: {draw(_POLICIES)}}}")
    if draw(st.booleans()):
        parts.append(f"persistent_disk: {draw(st.sampled_from([1024, 2048, 4096]))}")
    if draw(st.booleans()):
        parts.append(f"tags: {{t: v{draw(st.integers(0, 2))}}}")
    canaries, in_flight = draw(st.integers(0, 3)), draw(st.sampled_from(["1", "3", "50%"]))
    serial = str(draw(st.booleans())).lower()
    parts.append(f"update: {{canaries: {canaries}, max_in_flight: {in_flight}, serial: {serial}}}")
    azs = draw(st.sampled_from(["z1", "z1, z2", "z1, z2, f1"]))
    stemcell = draw(st.sampled_from(["default", "next"]))
    return group(name, draw(st.integers(0, 7)), azs, ", ".join(parts), stemcell)


@st.composite
def manifests(draw: st.DrawFn) -> str:
    shared = draw(st.none() | _POLICIES)
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
    return manifest(*(draw(one_group(name, shared)) for name in names))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=_PHASES)
@given(st.lists(manifests(), min_size=1, max_size=4))
def test_carrying_out_a_plan_reaches_the_wish_and_leaves_nothing_to_plan(history: list[str]) -> None:
    world = World()
    for text in history:
        before = world.snapshot()
        try:
            plan = world.plan(text)
        except Refused:
            assert world.snapshot() == before
            continue
        _check_order(stages(plan))
        world.carry_out(plan)
        assert world.plan(text).changes == ()
        wanted = {f"{wish.name}/{i}" for wish in wishes(text) for i in range(wish.instances)}
        assert set(world.nodes) == wanted
        _check_addresses(world)
        _check_spread(world, text)
    world.carry_out(world.remove())
    assert (world.nodes, world.groups, world.images) == ({}, {}, {})


def _check_addresses(world: World) -> None:
    given_out = [(network, ip) for node in world.nodes.values() for network, ip in node.addresses.items()]
    assert len(set(given_out)) == len(given_out)
    ranges = {"z1": "10.1.0.0/16", "z2": "10.2.0.0/16", "f1": "10.3.0.0/16"}
    for node in world.nodes.values():
        assert ipaddress.ip_address(node.addresses["net"]) in ipaddress.ip_network(ranges[node.az])


def _check_spread(world: World, text: str) -> None:
    for wish in wishes(text):
        own = [node.az for node in world.nodes.values() if node.instance_group == wish.name]
        assert set(own) <= {az.name for az in wish.azs}


def _check_order(order: list[Stage]) -> None:
    for n, stage in enumerate(order):
        assert stage.changes
        assert all(need < n for need, _ in stage.needs)
    reach = _reachable(order)
    for n, stage in enumerate(order):
        for m, other in enumerate(order):
            if _must_follow(stage, other):
                assert m in reach[n], f"{stage.name} does not wait for {other.name}"


def _must_follow(stage: Stage, other: Stage) -> bool:
    later, earlier = stage.changes[0], other.changes[0]
    rank = {
        ("stemcell", "create"): 0,
        ("group", "create"): 0,
        ("group", "update"): 0,
        ("node", "create"): 1,
        ("node", "recreate"): 1,
        ("node", "update"): 1,
        ("node", "delete"): 2,
        ("group", "delete"): 3,
        ("stemcell", "delete"): 4,
    }
    return rank[earlier.kind, earlier.action] < rank[later.kind, later.action]


def _reachable(order: list[Stage]) -> list[set[int]]:
    reach: list[set[int]] = []
    for stage in order:
        reach.append({m for need, _ in stage.needs for m in (need, *reach[need])})
    return reach


@settings(max_examples=40, deadline=None, phases=_PHASES)
@given(manifests())
def test_canaries_go_first_and_no_more_run_at_once_than_allowed(text: str) -> None:
    order = stages(World().plan(text))
    for wish in wishes(text):
        own = [s for s in order if s.changes[0].kind == "node" and s.changes[0].details["instance_group"] == wish.name]
        if not own:
            continue
        assert sum(len(stage.changes) for stage in own) == wish.instances
        assert all(stage.max_in_flight <= wish.update.max_in_flight for stage in own)
        if wish.update.canaries:
            assert own[0].stop_on_failure
            assert len(own[0].changes) == min(wish.update.canaries, wish.instances)
            assert all((order.index(own[0]), "done") in stage.needs or stage.needs for stage in own[1:])
        azs = [change.az for stage in own[bool(wish.update.canaries) :] for change in stage.changes]
        assert azs == sorted(azs, key=[az.name for az in wish.azs].index)
