"""After a change that failed: the next deploy works, and work on single nodes makes each as it was up last."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.errors import Refused
from coterie.ledger.tables import addresses
from coterie.requests.node_actions import NodeAction, plan_action, start_action
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.requests.site import CONFIG, Site, manifest


def fixed(first: int, count: int = 3, more: str = "", azs: str = "z1") -> str:
    ips = ", ".join(f"127.20.0.{first + n}" for n in range(count))
    common = f"name: a, instances: {count}, azs: [{azs}], vm_type: small, stemcell: one"
    return manifest("- {" + common + f", networks: [{{name: net, static_ips: [{ips}]}}]{more}" + "}\n")


OLD, NEW = fixed(10), fixed(20)


@pytest.fixture(autouse=True)
def static_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIG.replace("gateway: 127.20.0.1,", "gateway: 127.20.0.1, static: [127.20.0.10 - 127.20.0.99],")
    monkeypatch.setattr("tests.requests.site.CONFIG", config)


def bend(site: Site, method: str = "create_vm") -> None:
    store = open_datacenter(site.folder / "sandbox.db").store
    faults.add(store, method, "error", code="failed", retryable=False)


def mend(site: Site) -> None:
    faults.clear(open_datacenter(site.folder / "sandbox.db").store)


def fail_canary(site: Site) -> None:
    """The canary a/0 loses its VM, and gets none by the new manifest."""
    site.deploy(OLD)
    bend(site)
    site.deploy(NEW, expect_state="failed")
    mend(site)
    assert {name: node.state for name, node in site.nodes().items()} == {"a/0": "failing", "a/1": "up", "a/2": "up"}


def given(site: Site) -> list[str]:
    """What is taken in the ledger, and what the VMs have."""
    with site.ledger.read() as tx:
        taken = sorted(tx.execute(sa.select(addresses.c.ip).where(addresses.c.deployment == "dep")).scalars())
    assert taken == sorted(ip for node in site.nodes().values() for ip in (node.addresses or {}).values())
    return taken


@pytest.mark.parametrize("wanted", [OLD, NEW], ids=["old", "new"])
def test_after_a_failed_canary_with_new_addresses_either_manifest_can_be_deployed(here: Site, wanted: str) -> None:
    fail_canary(here)
    here.deploy(wanted)
    first = 10 if wanted == OLD else 20
    assert given(here) == [f"127.20.0.{first + n}" for n in range(3)]
    assert here.plan(wanted).changes == ()


def test_an_address_that_a_failed_change_took_is_free_for_another_node(local: Site) -> None:
    fail_canary(local)
    local.deploy(OLD.replace("127.20.0.12", "127.20.0.21"))
    assert given(local) == ["127.20.0.10", "127.20.0.11", "127.20.0.21"]


def test_a_node_is_recreated_as_it_was_up_last(here: Site) -> None:
    fail_canary(here)
    made = plan_action(here.ledger, NodeAction("dep", "recreate", ("a/0",)))
    (change,) = made.changes
    assert change.reason == "asked for; as it was made last: address in net is 127.20.0.10 again"
    here.wait(start_action(here.ledger, NodeAction("dep", "recreate", ("a/0",)), made.id, "test", lambda tx: None))
    node = here.nodes()["a/0"]
    assert (node.state, node.addresses) == ("up", {"net": "127.20.0.10"})
    assert (node.spec or {})["networks"]["net"]["ip"] == "127.20.0.10"
    assert given(here) == [f"127.20.0.{10 + n}" for n in range(3)]
    assert here.plan(OLD).changes == ()


def test_a_node_that_was_to_move_is_left_to_its_manifest(local: Site) -> None:
    text = "instances: 1, azs: [{az}], vm_type: small, stemcell: one, networks: [{{name: net}}]"
    here, there = (manifest("- {name: a, " + text.format(az=az) + "}\n") for az in ("z1", "z2"))
    local.deploy(here)
    bend(local)
    local.deploy(there, expect_state="failed")
    mend(local)
    with pytest.raises(Refused, match="made in az z1 last, and its last change began to make it in z2"):
        plan_action(local.ledger, NodeAction("dep", "recreate", ("a/0",)))


def test_a_disk_that_has_grown_stays_so(local: Site) -> None:
    small, large = (fixed(10, 1, f", persistent_disk: {size}") for size in (1024, 2048))
    local.deploy(small)
    bend(local, "attach_disk")
    local.deploy(large, expect_state="failed")
    mend(local)
    act(local, "recreate", "a/0")
    assert local.nodes()["a/0"].state == "up"
    assert local.plan(large).changes == ()


def act(site: Site, verb: Any, *names: str, state: str = "done", **more: Any) -> int:
    task = start_action(site.ledger, NodeAction("dep", verb, names, **more), None, "test", lambda tx: None)
    site.wait(task, state)
    return task


TEN = tuple(f"a/{n}" for n in range(10))


def test_when_the_canary_fails_the_other_nodes_are_left_alone(here: Site) -> None:
    here.deploy(fixed(10, 10))
    before = {name: node.vm_cid for name, node in here.nodes().items()}
    bend(here)
    act(here, "recreate", *TEN, state="failed")
    after = {name: node.vm_cid for name, node in here.nodes().items()}
    assert {name for name in after if after[name] != before[name]} == {"a/0"}


def test_canaries_and_max_in_flight_are_those_of_the_manifest(local: Site) -> None:
    local.deploy(fixed(10, 10).replace("canaries: 1, max_in_flight: 50", 'canaries: 2, max_in_flight: "30%"'))
    (rollout,) = plan_action(local.ledger, NodeAction("dep", "recreate", TEN)).rollouts
    assert (rollout.canaries, rollout.max_in_flight) == (2, 3)
    (rollout,) = plan_action(local.ledger, NodeAction("dep", "recreate", TEN, max_in_flight=5)).rollouts
    assert (rollout.canaries, rollout.max_in_flight) == (2, 5)


def test_a_manifest_that_cannot_be_read_any_more_leaves_the_careful_way(local: Site) -> None:
    local.deploy(fixed(10, 10))
    with local.ledger.write() as tx:
        tx.exec_driver_sql("UPDATE deployments SET manifest = 'name: dep'")
    (rollout,) = plan_action(local.ledger, NodeAction("dep", "recreate", TEN)).rollouts
    assert (rollout.canaries, rollout.max_in_flight) == (1, 1)


def test_a_soft_group_is_filled_as_few_at_a_time_as_its_cloud_can_spread(local: Site) -> None:
    local.config = local.config.replace("settle_s: 0.1", "settle_s: 0.1, boots_per_soft_group: 4")
    local.deploy(fixed(10, 6, ", placement: {policy: soft-anti-affinity}"))
    (rollout,) = plan_action(local.ledger, NodeAction("dep", "stop", TEN[:6])).rollouts
    assert rollout.max_in_flight == 4
    act(local, "stop", *TEN[:6])
    (rollout,) = plan_action(local.ledger, NodeAction("dep", "start", TEN[:6])).rollouts
    assert rollout.max_in_flight == 4
