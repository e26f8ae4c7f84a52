"""Kept disks come back: to new nodes by the manifest or on request, and to a running node in the place of its own."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from coterie.errors import Conflict, NotFound, Refused, StalePlan
from coterie.ledger.store import Tx
from coterie.ledger.tables import objects
from coterie.requests import start
from coterie.requests.draft import accept_draft, draft_plan
from coterie.requests.node_actions import NodeAction, plan_action, start_action
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.requests.site import Site, group, manifest

DISK = "persistent_disk: 1024"


def brokers(instances: int, more: str = DISK, azs: str = "z1, z2", name: str = "broker") -> str:
    return manifest(group(name, instances, more, azs=azs))


def disks_of_nodes(site: Site) -> dict[str, str]:
    """Node → the CID of the one disk that its VM has."""
    found = {}
    for name, node in site.nodes().items():
        (found[name],) = site.cpi().get_disks(node.vm_cid or "")
    return found


def kept(site: Site) -> dict[str, str]:
    """CID → intent."""
    query = sa.select(objects.c.cid, objects.c.intent).where(objects.c.kind == "disk", objects.c.state == "kept")
    with site.ledger.read() as tx:
        return dict(tx.execute(query).all())


def agree(tx: Tx) -> None:
    """A permit for everything."""


def attach(site: Site, node: str, intent: str) -> int:
    return start_action(site.ledger, NodeAction("dep", "attach", (node,), disk=intent), None, "test", agree)


def test_scaling_down_and_up_again_gives_each_node_its_disk_back(here: Site) -> None:
    text = brokers(3, f"{DISK}, disk_from: broker")
    here.deploy(text)
    before = disks_of_nodes(here)
    here.deploy(brokers(0, f"{DISK}, disk_from: broker"))
    assert here.objects("disk") == {"kept": 3}
    plan = here.plan(text)
    reasons = {change.subject: change.reason for change in plan.changes if change.kind == "node"}
    assert reasons["broker/1"] == f"new, with the kept disk {before['broker/1']} of dep/broker/1 (1024 MiB)"
    assert (plan.offers, plan.notes) == ((), ())
    here.deploy(text)
    assert disks_of_nodes(here) == before
    assert here.objects("disk") == {"live": 3}
    assert here.plan(text).changes == ()


def test_without_a_policy_the_disks_are_offered_and_taken_on_request(local: Site) -> None:
    local.deploy(brokers(3))
    before = disks_of_nodes(local)
    local.deploy(brokers(0))
    plan = local.plan(brokers(3))
    assert {node: disk.cid for node, disk in plan.offers} == before
    assert "--reuse-disks" in plan.notes[0]
    asked = local.plan(brokers(3), reuse_disks=True)
    assert (asked.offers, asked.notes) == ((), ())
    assert asked.id != plan.id
    local.deploy(brokers(3), reuse_disks=True)
    assert disks_of_nodes(local) == before


def test_a_node_goes_to_the_az_of_its_disk(local: Site) -> None:
    """New nodes are spread evenly otherwise: broker/0 would be in z1."""
    local.deploy(brokers(1, azs="z2"))
    local.deploy(brokers(0, azs="z2"))
    local.deploy(brokers(2, f"{DISK}, disk_from: broker"))
    assert [node.az for node in local.nodes().values()] == ["z2", "z1"]
    assert local.objects("disk") == {"live": 2}


def test_disks_of_a_deleted_deployment_go_to_another_one(here: Site) -> None:
    here.deploy(brokers(2))
    before = disks_of_nodes(here)
    here.delete()
    text = brokers(2, f"{DISK}, disk_from: dep/broker", name="store").replace("name: dep\n", "name: other\n")
    here.deploy(text)
    taken = [here.cpi().get_disks(node.vm_cid or "")[0] for node in here.nodes("other").values()]
    assert taken == list(before.values())
    here.delete(deployment="other", delete_disks=True)
    assert here.held("disk") == []


def test_a_disk_that_is_smaller_grows_and_a_larger_one_is_refused(local: Site) -> None:
    local.deploy(brokers(1))
    local.deploy(brokers(0))
    with pytest.raises(Refused, match="cannot shrink to 512 MiB"):
        local.plan(brokers(1, "persistent_disk: 512"), reuse_disks=True)
    local.deploy(brokers(1, "persistent_disk: 2048"), reuse_disks=True)
    (disk,) = local.held("disk")
    assert disks_of_nodes(local) == {"broker/0": disk.cid}
    with local.ledger.read() as tx:
        assert tx.execute(sa.select(objects.c.size_mb).where(objects.c.kind == "disk")).scalars().all() == [2048]


def test_a_running_node_that_gets_a_disk_again_takes_the_one_it_left(local: Site) -> None:
    local.deploy(brokers(1, f"{DISK}, disk_from: broker"))
    before, vm = disks_of_nodes(local), local.nodes()["broker/0"].vm_cid
    local.deploy(brokers(1, "tags: {a: b}"))
    assert local.objects("disk") == {"kept": 1}
    local.deploy(brokers(1, f"{DISK}, disk_from: broker"))
    assert disks_of_nodes(local) == before
    assert local.nodes()["broker/0"].vm_cid == vm


def test_a_disk_that_is_deleted_after_the_plan_is_not_replaced_by_an_empty_one(local: Site) -> None:
    local.deploy(brokers(1))
    local.deploy(brokers(0))
    text = brokers(1, f"{DISK}, disk_from: broker")
    plan = local.plan(text)
    local.wait(start.delete_kept_disks(local.ledger, list(kept(local).values()), "test"))
    with pytest.raises(StalePlan):
        start.deploy(local.ledger, local.request(text), plan.id, "test")


def test_a_disk_that_another_deployment_got_after_the_plan_is_not_deleted(here: Site) -> None:
    here.deploy(brokers(1))
    before = disks_of_nodes(here)
    here.deploy(brokers(0))
    draft = draft_plan(here.ledger, here.request(delete=True, delete_disks=True))
    text = brokers(1, f"{DISK}, disk_from: dep/broker", name="store").replace("name: dep\n", "name: other\n")
    task = start.deploy(here.ledger, here.request(text), None, "test")
    with pytest.raises(StalePlan, match="is not kept any more"):
        accept_draft(here.ledger, draft, "delete", "test")
    here.wait(task)
    assert here.cpi().get_disks(here.nodes("other")["store/0"].vm_cid or "") == list(before.values())


def test_a_node_that_failed_with_its_old_disk_keeps_it(local: Site) -> None:
    local.deploy(brokers(1))
    (cid,) = disks_of_nodes(local).values()
    local.deploy(brokers(0))
    unwell = f"{DISK}, disk_from: broker, health: {{kind: tcp, port: 9}}, update: {{canary_watch_s: 0.1}}"
    local.deploy(brokers(1, unwell), expect_state="failed")
    local.deploy(brokers(1))
    assert disks_of_nodes(local) == {"broker/0": cid}


def test_a_kept_disk_is_attached_in_the_place_of_the_nodes_own(here: Site) -> None:
    here.deploy(brokers(2, azs="z1"))
    before = disks_of_nodes(here)
    here.deploy(brokers(1, azs="z1"))
    ((cid, intent),) = kept(here).items()
    plan = plan_action(here.ledger, NodeAction("dep", "attach", ("broker/0",), disk=intent))
    (change,) = plan.changes
    assert change.reason == f"gets the kept disk {cid} of dep/broker/1 (1024 MiB); its own disk of 1024 MiB is kept"
    assert change.destructive
    here.wait(attach(here, "broker/0", intent))
    assert disks_of_nodes(here) == {"broker/0": before["broker/1"]}
    assert kept(here).keys() == {before["broker/0"]}
    assert here.plan(brokers(1, azs="z1")).changes == ()


def test_what_cannot_be_attached_is_refused_with_the_reason(local: Site) -> None:
    local.deploy(manifest(group("broker", 2, DISK), group("web", 1, azs="z2")))
    used = dict_of_live(local)["broker/0"]
    local.deploy(manifest(group("broker", 1, DISK), group("web", 1, azs="z2")))
    ((_, intent),) = kept(local).items()
    with pytest.raises(Refused, match="cannot be attached to broker/0") as elsewhere:
        attach(local, "broker/0", intent)
    assert elsewhere.value.why == "it is in lab/z2, and the node is in lab/z1"
    with pytest.raises(Refused, match="no persistent disk by its manifest"):
        attach(local, "web/0", intent)
    with pytest.raises(Conflict, match="is live, not kept"):
        attach(local, "broker/0", used)
    with pytest.raises(NotFound, match="there is no disk nonsense"):
        attach(local, "broker/0", "nonsense")
    with pytest.raises(NotFound, match="has no node broker/7"):
        attach(local, "broker/7", intent)


def dict_of_live(site: Site) -> dict[str, str]:
    query = sa.select(objects.c.ref, objects.c.intent).where(objects.c.kind == "disk", objects.c.state == "live")
    with site.ledger.read() as tx:
        return dict(tx.execute(query).all())


def test_an_attach_that_failed_is_not_taken_as_done_and_ends_with_the_new_disk_after_a_deploy(local: Site) -> None:
    local.deploy(brokers(3, azs="z1"))
    before = disks_of_nodes(local)
    local.deploy(brokers(1, azs="z1"))
    intent, other = kept(local)[before["broker/1"]], kept(local)[before["broker/2"]]
    store = open_datacenter(local.folder / "sandbox.db").store
    faults.add(store, "detach_disk", "error", retryable=False)
    local.wait(attach(local, "broker/0", intent), "failed")
    faults.clear(store)
    assert local.nodes()["broker/0"].state == "failing"
    for action in (
        NodeAction("dep", "restart", ("broker/0",)),
        NodeAction("dep", "attach", ("broker/0",), disk=other),
    ):
        with pytest.raises(Refused, match="is failing") as half_made:
            plan_action(local.ledger, action)
        assert "deploy the manifest of dep" in half_made.value.remedy
    local.deploy(brokers(1, azs="z1"))
    assert disks_of_nodes(local) == {"broker/0": before["broker/1"]}
    assert kept(local).keys() == {before["broker/0"], before["broker/2"]}


def test_a_replaced_disk_is_nothing_that_others_can_have_before_it_is_detached(here: Site) -> None:
    here.deploy(brokers(3, azs="z1"))
    before = disks_of_nodes(here)
    here.deploy(brokers(2, azs="z1"))
    ((_, intent),) = kept(here).items()
    store = open_datacenter(here.folder / "sandbox.db").store
    faults.add(store, "detach_disk", "error", retryable=False)
    here.wait(attach(here, "broker/0", intent), "failed")
    faults.clear(store)
    replaced = kept(here)[before["broker/0"]]
    assert before["broker/0"] in here.cpi().get_disks(here.nodes()["broker/0"].vm_cid or "")
    with pytest.raises(Conflict, match="is still attached") as refused:
        attach(here, "broker/1", replaced)
    assert refused.value.remedy == "wait for that task; if it failed, deploy dep again"
    with pytest.raises(Conflict, match="is still attached"):
        start.delete_kept_disks(here.ledger, [replaced], "test")
    offered = here.plan(brokers(3, azs="z1")).offers
    assert offered == ()
    here.deploy(brokers(2, azs="z1"))
    assert disks_of_nodes(here) == {"broker/0": before["broker/2"], "broker/1": before["broker/1"]}
    here.wait(attach(here, "broker/1", replaced))
    assert disks_of_nodes(here)["broker/1"] == before["broker/0"]


@pytest.mark.parametrize("delete_disks", [True, False])
def test_a_node_that_goes_before_its_disks_were_exchanged_keeps_the_replaced_one(
    here: Site, delete_disks: bool
) -> None:
    here.deploy(brokers(2, azs="z1"))
    here.deploy(brokers(1, azs="z1"))
    ((_, intent),) = kept(here).items()
    store = open_datacenter(here.folder / "sandbox.db").store
    faults.add(store, "detach_disk", "error", retryable=False)
    here.wait(attach(here, "broker/0", intent), "failed")
    faults.clear(store)
    here.delete(delete_disks=delete_disks)
    # The one that was to be replaced stands in no plan, and was said to be kept.
    assert here.objects("disk") == ({"gone": 1, "kept": 1} if delete_disks else {"kept": 2})
    here.wait(start.delete_kept_disks(here.ledger, list(kept(here).values()), "test"))
    assert here.objects("disk") == {"gone": 2}


def test_a_stopped_node_has_let_go_of_the_disk_that_was_replaced(local: Site) -> None:
    local.deploy(brokers(2, azs="z1"))
    local.deploy(brokers(1, azs="z1"))
    ((_, intent),) = kept(local).items()
    store = open_datacenter(local.folder / "sandbox.db").store
    faults.add(store, "detach_disk", "error", retryable=False)
    local.wait(attach(local, "broker/0", intent), "failed")
    faults.clear(store)
    stop = NodeAction("dep", "stop", ("broker/0",))
    local.wait(start_action(local.ledger, stop, None, "test", agree))
    local.wait(start.delete_kept_disks(local.ledger, list(kept(local).values()), "test"))
    assert local.objects("disk") == {"live": 1, "gone": 1}


def test_several_disks_are_deleted_by_one_task_or_none_at_all(here: Site) -> None:
    here.deploy(brokers(3))
    used = dict_of_live(here)["broker/0"]
    here.deploy(brokers(1))
    left = list(kept(here).values())
    with pytest.raises(Conflict, match="is live, not kept"):
        start.delete_kept_disks(here.ledger, [*left, used], "test")
    assert here.objects("disk") == {"live": 1, "kept": 2}
    here.wait(start.delete_kept_disks(here.ledger, left, "test"))
    assert here.objects("disk") == {"live": 1, "gone": 2}


def test_a_cloud_that_only_kept_disks_hold_says_how_to_leave_it(local: Site) -> None:
    """The README's last step keeps disks, and the next cloud config was refused without a way on."""
    local.deploy(brokers(2))
    local.delete()
    other = local.config.replace("lab", "own")
    with pytest.raises(Conflict, match="leaves out lab") as refused:
        start.set_cloud_config(local.ledger, other, "cloud.yml")
    assert "2 kept disks (2048 MiB)" in refused.value.why
    assert "coterie disks delete --cloud lab" in refused.value.remedy
    local.wait(start.delete_kept_disks(local.ledger, list(kept(local).values()), "test"))
    start.set_cloud_config(local.ledger, other, "cloud.yml")
