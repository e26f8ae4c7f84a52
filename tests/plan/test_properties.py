"""For any manifest and history: after a plan, nothing is left to plan; the order of its stages follows the rules."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from copy import deepcopy

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coterie.errors import Refused
from coterie.manifest import InstanceGroupSpec
from coterie.plan.model import Change, NodeChange, NodeNow
from coterie.plan.stages import Stage, stages
from tests.plan.world import World, cloud, group, group_specs, manifest

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


@st.composite
def changes_of_mind(draw: st.DrawFn) -> list[str]:
    """Manifests that differ in little, mostly in policies, and come back."""
    size, other = draw(st.integers(1, 4)), draw(manifests())
    few = [
        manifest(group("a", size, more=f"placement: {{policy: {policy}, server_group: shared}}"), group("b", 1))
        for policy in ("anti-affinity", "soft-anti-affinity")
    ]
    return draw(st.lists(st.sampled_from([*few, *few, other]), min_size=2, max_size=5))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=_PHASES)
@given(st.lists(manifests(), min_size=1, max_size=4))
def test_carrying_out_a_plan_reaches_the_spec_and_leaves_nothing_to_plan(history: list[str]) -> None:
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
        wanted = {f"{spec.name}/{i}" for spec in group_specs(text) for i in range(spec.instances)}
        assert set(world.nodes) == wanted
        _check_addresses(world)
        _check_spread(world, text)
    world.carry_out(world.remove())
    assert (world.nodes, world.groups, world.images) == ({}, {}, {})


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=_PHASES)
@given(changes_of_mind(), st.data())
def test_from_any_half_carried_out_plan_either_spec_is_reached_and_no_node_moves_needlessly(
    history: list[str], data: st.DataObject
) -> None:
    moves = data.draw(st.booleans())
    world = World(clouds={name: cloud(name, moves_members=moves) for name in ("lab", "far")})
    failing = st.sampled_from([0.0, 0.3, 1.0])
    for text in history:
        chances = {"group": data.draw(failing), "node": data.draw(failing), "stemcell": 0.0}
        luck = data.draw(st.randoms(use_true_random=False))
        with suppress(Refused):
            plan = world.plan(text)
            failed = {c.subject for c in plan.changes if luck.random() < chances[c.kind]}
            world.carry_out_partly(plan, failed)
    for text in dict.fromkeys(history):
        again = deepcopy(world)
        try:
            plan = again.plan(text)
        except Refused:
            continue
        _check_order(stages(plan))
        for change in plan.changes:
            if change.action == "recreate":
                assert not _already_right(again, change, text), f"{change.subject} is recreated: {change.reason}"
        again.carry_out(plan)
        assert again.plan(text).changes == ()


def _already_right(world: World, change: Change, text: str) -> bool:
    node, spec = world.nodes[change.subject], change.details.spec
    if node.state != "up" or node.spec is None:
        return False
    (of,) = (one for one in group_specs(text) if one.name == node.instance_group)
    shape = ("az", "stemcell", "vm", "networks", "env", "user_data")
    return all(getattr(node.spec, field) == getattr(spec, field) for field in shape) and _is_in_its_server_group(
        world, node, of
    )


def _is_in_its_server_group(world: World, node: NodeNow, of: InstanceGroupSpec) -> bool:
    present, expected = world.groups.get(node.server_group or ""), of.server_group
    if present is None or expected is None:
        return present is None and expected is None
    named = (expected.name, expected.policy, "live")
    return (present.name, present.metadata.policy, present.state) == named


def _check_addresses(world: World) -> None:
    given_out = [(network, ip) for node in world.nodes.values() for network, ip in node.addresses.items()]
    assert len(set(given_out)) == len(given_out)
    ranges = {"z1": "10.1.0.0/16", "z2": "10.2.0.0/16", "f1": "10.3.0.0/16"}
    for node in world.nodes.values():
        assert ipaddress.ip_address(node.addresses["net"]) in ipaddress.ip_network(ranges[node.az])


def _check_spread(world: World, text: str) -> None:
    for spec in group_specs(text):
        own = [node.az for node in world.nodes.values() if node.instance_group == spec.name]
        assert set(own) <= {az.name for az in spec.azs}


def _check_order(order: list[Stage]) -> None:
    for n, stage in enumerate(order):
        assert stage.changes
        assert all(need < n for need, _ in stage.needs)
    reach = _reachable(order)
    for n, stage in enumerate(order):
        for m, other in enumerate(order):
            if _rank(other) < _rank(stage):
                assert m in reach[n], f"{stage.name} does not wait for {other.name}"
    for name in {stage.changes[0].details.instance_group for stage in order if _rolled(stage)}:
        _check_roll_out(order, name)


def _rank(stage: Stage) -> int:
    if _disks(stage):
        return 2
    ranks = {
        ("stemcell", "create"): 0,
        ("group", "create"): 0,
        ("group", "adopt"): 0,
        ("group", "update"): 0,
        ("node", "create"): 1,
        ("node", "recreate"): 1,
        ("node", "update"): 1,
        ("node", "delete"): 3,
        ("group", "delete"): 4,
        ("group", "leave"): 4,
        ("stemcell", "delete"): 5,
    }
    (rank,) = {ranks[change.kind, change.action] for change in stage.changes}
    return rank


def _disks(stage: Stage) -> bool:
    return all(isinstance(change.details, NodeChange) and bool(change.details.disk_changes) for change in stage.changes)


def _rolled(stage: Stage) -> bool:
    """Whether it makes or changes machines."""
    return _rank(stage) == 1


def _check_roll_out(order: list[Stage], name: str) -> None:
    """Only canaries start before all canaries are up; then one az after the other, whatever its result."""
    own = [n for n, stage in enumerate(order) if _rolled(stage) and stage.changes[0].details.instance_group == name]
    canaries = [n for n in own if order[n].stop_on_failure]
    assert canaries in ([], own[:1])
    azs = own[len(canaries) :]
    for place, n in enumerate(azs):
        assert len({change.az for change in order[n].changes}) == 1
        for canary in canaries:
            assert (canary, "done") in order[n].needs, f"{order[n].name} does not wait for {order[canary].name}"
        for before in azs[:place]:
            assert (before, "ended") in order[n].needs, f"{order[n].name} does not wait for {order[before].name}"


def _reachable(order: list[Stage]) -> list[set[int]]:
    reach: list[set[int]] = []
    for stage in order:
        reach.append({m for need, _ in stage.needs for m in (need, *reach[need])})
    return reach


@settings(max_examples=40, deadline=None, phases=_PHASES)
@given(manifests())
def test_canaries_go_first_and_no_more_run_at_once_than_allowed(text: str) -> None:
    order = stages(World().plan(text))
    _check_serial(order, text)
    for spec in group_specs(text):
        own = [s for s in order if s.changes[0].kind == "node" and s.changes[0].details.instance_group == spec.name]
        if not own:
            continue
        assert sum(len(stage.changes) for stage in own) == spec.instances
        assert all(stage.max_in_flight <= spec.update.max_in_flight for stage in own)
        if spec.update.canaries:
            assert own[0].stop_on_failure
            assert len(own[0].changes) == min(spec.update.canaries, spec.instances)
            assert all((order.index(own[0]), "done") in stage.needs for stage in own[1:])
        azs = [change.az for stage in own[bool(spec.update.canaries) :] for change in stage.changes]
        assert azs == sorted(azs, key=[az.name for az in spec.azs].index)


def _check_serial(order: list[Stage], text: str) -> None:
    """What comes after a serial group waits for all of it, and for its canaries to be up."""
    of = {spec.name: spec for spec in group_specs(text)}
    before: list[tuple[int, Stage]] = []
    for n, stage in enumerate(order):
        if not _rolled(stage):
            continue
        name = stage.changes[0].details.instance_group
        others = [(m, other) for m, other in before if other.changes[0].details.instance_group != name]
        for m, other in others:
            assert m in _reachable(order)[n], f"{stage.name} does not wait for {other.name}"
        if of[name].update.serial:
            before.append((n, stage))
