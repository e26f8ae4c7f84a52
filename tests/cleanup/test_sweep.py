"""From orphans to an empty cloud: survey, plan, sweep."""

from __future__ import annotations

import yaml

from coterie.ledger.rows import cleanups
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


def test_a_cloud_whose_driver_cannot_list_does_not_stop_the_cleanup_of_others(yard: Yard) -> None:
    """Else a saved plan would never be applied by `cleanup --save … && cleanup apply …`."""
    config = yaml.safe_load(yard.site.config)
    config["clouds"].append({"name": "foreign", "driver": "exec", "properties": {"path": "/bin/true"}})
    yard.site.config = yaml.safe_dump(config)
    yard.leave()
    plan = yard.clean()
    assert plan.stopped == ()
    with yard.ledger.read() as tx:
        surveys = cleanups.all_surveys(tx, plan.cleanup)
    assert {(one.state, bool(one.reason)) for one in surveys if one.cloud == "foreign"} == {("unlisted", True)}
    assert yard.held() == {}
