"""Nodes are recreated, restarted, stopped and started by their names, without their manifest."""

from __future__ import annotations

import pytest

from coterie.errors import Conflict, NotFound, Refused, StalePlan
from coterie.flows.look import Look
from coterie.ledger import writes
from coterie.ledger.rows import alarms, nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Tx
from coterie.plan.model import Plan
from coterie.requests import looks
from coterie.requests.node_actions import NodeAction, Verb, plan_action, start_action
from tests.requests.site import Site, group, manifest

TEXT = manifest(group("a", 3, "persistent_disk: 1024, placement: {policy: anti-affinity}", azs="z1"))


def agree(tx: Tx) -> None:
    """A permit for everything."""


def plan(site: Site, verb: Verb, *names: str) -> Plan:
    return plan_action(site.ledger, NodeAction("dep", verb, names))


def act(site: Site, verb: Verb, *names: str, expect: str | None = None, at_once: int | None = None) -> int:
    task = start_action(site.ledger, NodeAction("dep", verb, names, at_once), expect, "test", agree)
    site.wait(task)
    return task


def vms(site: Site) -> dict[str, str | None]:
    return {name: node.vm_cid for name, node in site.nodes().items()}


def disk_of(site: Site, node: NodeRow) -> str:
    (cid,) = site.cpi().get_disks(node.vm_cid or "")
    return cid


def test_named_nodes_are_recreated_with_their_disks_addresses_and_group(here: Site) -> None:
    here.deploy(TEXT)
    before = here.nodes()
    disk = disk_of(here, before["a/1"])
    made = plan(here, "recreate", "a/1")
    assert [(c.action, c.subject, c.reason, c.destructive) for c in made.changes] == [
        ("recreate", "a/1", "asked for", True)
    ]
    act(here, "recreate", "a/1", expect=made.id)
    after = here.nodes()
    assert {name for name in after if after[name].vm_cid != before[name].vm_cid} == {"a/1"}
    assert disk_of(here, after["a/1"]) == disk
    assert after["a/1"].addresses == before["a/1"].addresses
    assert after["a/1"].server_group == before["a/1"].server_group
    assert here.plan(TEXT).changes == ()


def test_a_restart_reboots_the_vm_and_waits_until_it_is_up(here: Site) -> None:
    here.deploy(TEXT)
    before = vms(here)
    task = act(here, "restart", "a/0", "a/2")
    assert vms(here) == before
    assert here.kinds(task).count("node.restarting") == here.kinds(task).count("node.up") == 2


def test_one_node_after_the_other(local: Site) -> None:
    local.deploy(TEXT)
    lines = local.story(act(local, "restart", "a/0", "a/1", "a/2", at_once=1)).splitlines()
    order = [" ".join(line.split()[1:3]) for line in lines if " node." in line]
    assert order == [f"node.{kind} a/{n}:" for n in range(3) for kind in ("restarting", "up")]


def test_a_stopped_node_keeps_its_place_and_comes_back_when_it_is_started(here: Site) -> None:
    here.deploy(TEXT)
    before = here.nodes()
    disk = disk_of(here, before["a/1"])
    act(here, "stop", "a/1")
    stopped = here.nodes()["a/1"]
    assert (stopped.state, stopped.vm_cid, stopped.addresses) == ("stopped", None, before["a/1"].addresses)
    assert len(here.held("vm")) == 2
    assert here.objects("disk") == {"live": 3}
    assert plan(here, "stop", "a/1").notes == ("a/1 is stopped already",)
    act(here, "start", "a/1")
    started = here.nodes()["a/1"]
    assert (started.state, started.addresses, started.server_group) == (
        "up",
        before["a/1"].addresses,
        before["a/1"].server_group,
    )
    assert disk_of(here, started) == disk
    assert here.plan(TEXT).changes == ()


def test_a_stopped_node_stays_stopped_through_deploys_looks_and_resurrection(local: Site) -> None:
    local.deploy(TEXT)
    act(local, "stop", "a/0")
    assert local.plan(TEXT).changes == ()
    look = looks.look(local.ledger, Look())
    assert look is not None
    local.wait(look)
    assert local.nodes()["a/0"].state == "stopped"
    changed = TEXT.replace("stemcell: one", "stemcell: two").replace("persistent_disk: 1024", "persistent_disk: 2048")
    (reason,) = [change.reason for change in local.plan(changed).changes if change.subject == "a/0"]
    assert reason == "stemcell os/1 → 2; disk 1024 → 2048 MiB; it is stopped, and stays so"
    local.deploy(changed)
    assert (local.nodes()["a/0"].state, len(local.held("vm"))) == ("stopped", 2)
    assert local.plan(changed).changes == ()
    act(local, "start", "a/0")
    node = local.nodes()["a/0"]
    assert (node.state, (node.spec or {})["stemcell"]) == ("up", "os/2")
    assert local.plan(changed).changes == ()


def test_a_stopped_node_can_be_removed_and_its_deployment_deleted(local: Site) -> None:
    local.deploy(TEXT)
    act(local, "stop", "a/0", "a/2")
    local.deploy(TEXT.replace("instances: 3", "instances: 2"))
    assert local.nodes().keys() == {"a/0", "a/1"}
    local.delete(delete_disks=True)
    assert [local.held(kind) for kind in ("vm", "disk", "server_group", "image")] == [[], [], [], []]


def test_what_cannot_be_done_is_refused_and_changes_nothing(local: Site) -> None:
    local.deploy(TEXT)
    act(local, "stop", "a/0")
    before = vms(local)
    for verb in ("restart", "recreate"):
        with pytest.raises(Refused) as stopped:
            act(local, verb, "a/0", "a/1")
        assert "coterie nodes start dep/a/0" in (stopped.value.remedy or "")
    with pytest.raises(NotFound, match="has no node a/7"):
        act(local, "restart", "a/7")
    with pytest.raises(NotFound, match="no deployment other"):
        plan_action(local.ledger, NodeAction("other", "stop", ("a/0",)))
    with pytest.raises(StalePlan):
        act(local, "stop", "a/1", expect="another")
    assert plan(local, "start", "a/1").notes == ("a/1 is up: nothing is done to it",)
    assert vms(local) == before


def test_no_vm_is_deleted_or_made_a_second_time_in_a_cloud_with_an_alarm(local: Site) -> None:
    """What the cloud does not show may be there, with its address; of a stopped node nothing can be there."""
    local.deploy(TEXT)
    act(local, "stop", "a/0")
    with local.ledger.write() as tx:
        writes.execute(tx, nodes.set_state(local.nodes()["a/1"].uuid, "missing"))
        writes.execute(tx, alarms.ring([], "lab", alarms.MELTDOWN, "2 of 2 nodes vanished"))
    for verb in ("recreate", "stop", "start"):
        with pytest.raises(Conflict, match="has an alarm"):
            act(local, verb, "a/1")
    act(local, "start", "a/0")
    assert [node.state for node in local.nodes().values()] == ["up", "missing", "up"]
