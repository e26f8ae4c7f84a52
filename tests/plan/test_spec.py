"""The stored form of a node's spec: what this and earlier releases read in it."""

from __future__ import annotations

from dataclasses import replace

from coterie.plan.spec import HealthSpec, NodeSpec

HEALTH = HealthSpec("tcp", 80, "/", 200, 2.0, 5.0, recreate_after=5)
SPEC = NodeSpec("z1", "lab", "os/1", {}, {}, None, {}, None, {}, HEALTH, 60.0)
OF_0_1_0 = {"kind", "port", "path", "expect", "interval_s", "timeout_s"}  # it takes no other field


def test_a_conductor_of_release_0_1_0_takes_every_health_check() -> None:
    for after in (0, 3, 5):
        spec = replace(SPEC, health=replace(HEALTH, recreate_after=after))
        stored = spec.wire()
        assert stored["health"].keys() == OF_0_1_0
        assert NodeSpec.of_wire(stored) == spec


def test_the_form_before_is_read() -> None:
    stored = SPEC.wire()
    after = stored.pop("recreate_after")
    assert NodeSpec.of_wire({**stored, "health": {**stored["health"], "recreate_after": after}}) == SPEC


def test_the_default_is_not_stored() -> None:
    """So that what release 0.1.0 stored is the same spec."""
    assert "recreate_after" not in replace(SPEC, health=replace(HEALTH, recreate_after=3)).wire()
    assert "recreate_after" not in replace(SPEC, health=None).wire()
