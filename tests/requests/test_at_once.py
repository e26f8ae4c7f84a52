"""Deployments that are accepted at once share networks and stemcells, and do not hinder each other."""

from __future__ import annotations

import pytest

from coterie.errors import StalePlan
from coterie.requests import start
from tests.requests.at_once import delete_at_once, deploy_at_once
from tests.requests.site import Site, group, manifest

NAMES = [f"dep{n}" for n in range(8)]
TEXT = manifest(group("web", 3))


def named(name: str, text: str = TEXT) -> str:
    return text.replace("name: dep", f"name: {name}", 1)


def test_eight_deployments_on_one_network_are_all_accepted(here: Site) -> None:
    deploy_at_once(here, [named(name) for name in NAMES])
    given = [ip for name in NAMES for node in here.nodes(name).values() for ip in (node.addresses or {}).values()]
    assert len(given) == len(set(given)) == 24
    assert here.objects("image") == {"live": 1}
    delete_at_once(here, NAMES)
    assert here.held("vm") == here.held("image") == []


def test_a_plan_holds_where_another_deployment_took_its_free_address(local: Site) -> None:
    plan = local.plan(named("one"))
    local.deploy(named("two"))
    task = start.deploy(local.ledger, local.request(named("one")), plan.id, "test")
    local.wait(task)
    assert local.nodes("one")["web/0"].addresses == {"net": "127.20.0.4"}


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("instances: 3", "instances: 4"),
        TEXT.replace("stemcell: one", "stemcell: two"),
        TEXT.replace("azs: [z1, z2]", "azs: [z2]"),
    ],
    ids=["size", "stemcell", "az"],
)
def test_a_plan_is_stale_where_its_own_deployment_has_changed(local: Site, changed: str) -> None:
    plan = local.plan(TEXT)
    local.deploy(changed)
    with pytest.raises(StalePlan):
        start.deploy(local.ledger, local.request(TEXT), plan.id, "test")
