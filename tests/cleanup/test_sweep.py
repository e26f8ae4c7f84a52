"""From orphans to an empty cloud: survey, plan, sweep."""

from __future__ import annotations

from tests.cleanup.yard import Yard


def test_all_that_an_abandoned_deployment_left_goes_and_nothing_else(both: Yard) -> None:
    both.leave()
    both.plant()
    foreign = both.foreign()
    assert both.held().keys() == {"vm", "disk", "image", "server_group", "security_group"}
    plan = both.clean()
    assert [item.kind for item in plan.items] == [
        "vm",
        "vm",
        "disk",
        "disk",
        "server_group",
        "security_group",
        "image",
    ]
    assert set(both.outcomes(plan).values()) <= {"deleted", "gone"}
    assert both.held() == {}
    assert both.foreign() == foreign
    assert both.survey().items == ()
