"""A deployment whose change was not completed: its promise is judged as the manifest says, and it is called so."""

from __future__ import annotations

import time
from typing import Any

from coterie.ledger.rows import deployments
from coterie.ledger.views.counts import unfinished_deployments
from coterie.ledger.views.deployments import one
from coterie.requests import looks, start
from coterie.requests.audit import placement_audit
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.requests.site import Site, group, manifest

TOGETHER = manifest(group("web", 4, "placement: {policy: soft-affinity}", azs="z1"))
APART = TOGETHER.replace("soft-affinity", "anti-affinity")


def bend(site: Site, method: str, mode: str, **more: Any) -> None:
    faults.add(open_datacenter(site.folder / "sandbox.db").store, method, mode, times=100, **more)


def mend(site: Site) -> None:
    faults.clear(open_datacenter(site.folder / "sandbox.db").store)


def judged(site: Site, policy: str) -> dict[str, Any]:
    (found,) = [each for each in placement_audit(site.ledger, "dep")["groups"] if each["policy"] == policy]
    return dict(found)


def unfinished(site: Site) -> int | None:
    with site.ledger.read() as tx:
        found: int | None = one(tx, "dep")["unfinished_task"]
        return found


def test_a_promise_is_judged_over_nodes_of_the_old_and_the_new_group(here: Site) -> None:
    here.deploy(TOGETHER)
    before = here.nodes()["web/0"].server_group
    bend(here, "create_vm", "latency", ms=300)
    text = APART.replace("max_in_flight: 50", "max_in_flight: 1")
    task = start.deploy(here.ledger, here.request(text), None, "test")
    give_up = time.monotonic() + here.patience_s
    while (node := here.nodes()["web/0"]).server_group == before or node.state != "up":
        assert time.monotonic() < give_up, here.story(task)
        time.sleep(0.01)
    start.cancel(here.ledger, task)
    here.wait(task, "cancelled")
    found = judged(here, "anti-affinity")
    assert (found["holds"], found["unfinished_task"]) == (False, task)
    assert "web/2" in found["outside"] and "web/0" not in found["outside"]
    placed = {name for names in found["hosts"].values() for name in names}
    assert {"web/0", "web/2", "web/3"} <= placed  # where the cancel met web/1 differs
    assert unfinished(here) == task
    mend(here)
    here.deploy(APART)
    found = judged(here, "anti-affinity")
    assert (found["holds"], found["outside"], found["unfinished_task"]) == (True, [], None)


def test_a_promise_whose_group_was_never_made_is_judged_too(local: Site) -> None:
    local.deploy(TOGETHER)
    bend(local, "create_server_group", "error", retryable=False)
    task = local.deploy(APART, "failed")
    found = judged(local, "anti-affinity")
    assert (found["holds"], found["unfinished_task"]) == (False, task)
    assert sorted(found["outside"]) == ["web/0", "web/1", "web/2", "web/3"]


def test_it_is_unfinished_until_a_deploy_completes_it(local: Site) -> None:
    local.deploy(TOGETHER)
    assert unfinished(local) is None
    bend(local, "create_vm", "error", retryable=False)
    task = local.deploy(TOGETHER.replace("instances: 4", "instances: 5"), "failed")
    assert unfinished(local) == task
    with local.ledger.read() as tx:
        assert unfinished_deployments(tx) == {(): 1.0}
        assert deployments.unfinished(tx, ["another"]) == {}
    mend(local)
    local.wait(looks.look(local.ledger) or 0)
    assert unfinished(local) == task
    local.deploy(TOGETHER)
    assert unfinished(local) is None
