"""Deployments on the simulated vCenter through planner, ledger and conductor: groups made, moved, lost and repaired."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from peers.vsphere_bed import CLUSTERS, shared
from peers.vsphere_operator import VsphereOperator
from pyVmomi import vim
from tests.cpi.drivers.vsphere.place import Place, placed
from tests.peers.vcenter import vcenter
from tests.requests.at_once import delete_at_once, deploy_at_once
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import group, manifest

from coterie.cpi.contract import GroupMetadata, Mark, Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger.tables import nodes
from coterie.requests import operations
from coterie.requests.enroll import Enrollment, enroll
from coterie.requests.operations import destroy
from coterie.requests.resurrection import resurrect

HOSTS = "placement: {policy: host-affinity, vm_group: licensed}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path, shared()) as made:
        yield made


def test_a_deployment_is_made_in_its_group_scaled_and_deleted(place: Place) -> None:
    place.deploy(manifest(group("db", 3, HOSTS)))
    assert (place.drs("z1"), place.drs("z2")) == ({"licensed": 2}, {"licensed": 1})
    place.deploy(manifest(group("db", 1, HOSTS)))
    assert (place.drs("z1"), place.drs("z2")) == ({"licensed": 1}, {})
    place.delete()
    assert place.drs("z1") == {}


def test_groups_are_turned_on_renamed_and_off_without_making_a_vm_anew(place: Place) -> None:
    place.deploy(manifest(group("db", 2, azs="z1")))
    vms = place.vms()
    assert place.drs() == {}
    plan = place.plan(manifest(group("db", 2, HOSTS, azs="z1")))
    assert {change.action for change in plan.changes if change.kind == "node"} == {"update"}
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    assert (place.drs(), place.vms()) == ({"licensed": 2}, vms)
    renamed = HOSTS.replace("licensed", "renamed")
    place.deploy(manifest(group("db", 2, renamed, azs="z1")))
    assert (place.drs(), place.vms()) == ({"renamed": 2}, vms)
    place.deploy(manifest(group("db", 2, azs="z1")))
    assert (place.drs(), place.vms()) == ({}, vms)


def test_turning_groups_on_that_fails_half_way_says_what_is_left_and_goes_on(place: Place) -> None:
    place.deploy(manifest(group("db", 2, azs="z1")))
    vms = place.vms()
    fault = '<object type="ClusterComputeResource">c</object><privilegeId>Host.Inventory.EditCluster</privilegeId>'
    shared().bend("ReconfigureComputeResource_Task", "fault", fault="NoPermission", detail=fault, times=9)
    task = place.deploy(manifest(group("db", 2, HOSTS, azs="z1")), "failed")
    assert "Host.Inventory.EditCluster" in place.story(task)
    assert (place.drs(), place.vms()) == ({}, vms)
    shared().straighten()
    plan = place.plan(manifest(group("db", 2, HOSTS, azs="z1")))
    assert {change.action for change in plan.changes if change.kind == "node"} == {"update"}
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    assert (place.drs(), place.vms()) == ({"licensed": 2}, vms)


@pytest.mark.parametrize("back", [False, True], ids=["the same again", "rolled back"])
def test_a_regroup_that_fails_for_some_nodes_makes_no_vm_anew(place: Place, back: bool) -> None:
    """The canary joins; then the administrator takes the privilege away."""
    before = manifest(group("db", 6, azs="z1"))
    after = manifest(group("db", 6, HOSTS, azs="z1"))
    place.deploy(before)
    vms = place.vms()
    fault = '<object type="ClusterComputeResource">c</object><privilegeId>Host.Inventory.EditCluster</privilegeId>'
    shared().bend("ReconfigureComputeResource_Task", "fault", fault="NoPermission", detail=fault, skip=1, times=99)
    place.deploy(after, "failed")
    shared().straighten()
    assert {node.state for node in place.nodes().values()} == {"up"}
    plan = place.plan(before if back else after)
    assert not [change for change in plan.changes if change.kind == "node" and change.action != "update"]
    place.deploy(before if back else after)
    assert (place.drs(), place.vms()) == ({} if back else {"licensed": 6}, vms)
    assert place.plan(before if back else after).changes == ()


HOST_GROUPS = ("licensed-hosts", "other-hosts")


@pytest.fixture
def hosted(place: Place) -> Iterator[Place]:
    """A place whose administrator made two host groups, of the first and of the second host."""
    cluster = place.operator.cluster("z1")
    hosts = place.operator.get(cluster, "host")
    infos = [vim.cluster.HostGroup(name=name, host=[host]) for name, host in zip(HOST_GROUPS, hosts, strict=False)]
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=info) for info in infos])
    place.operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
    yield place
    if place.nodes():
        place.delete()
    for name in HOST_GROUPS:
        place.operator.remove(f"DC0_C0/{name}")


def tied(host_group: str | None, *, rule: str = "must", affine: bool = True, named: bool = True) -> str:
    options = f", host_group: {host_group}, rule: {rule}, affine: {str(affine).lower()}" if host_group else ""
    name = ", vm_group: licensed" if named else ""
    return manifest(group("db", 2, f"placement: {{policy: host-affinity{name}{options}}}", azs="z1"))


@pytest.mark.parametrize("named", [True, False], ids=["a name of the user's", "an automatic name"])
def test_what_a_group_is_tied_to_changes_in_place_by_a_plan(hosted: Place, named: bool) -> None:
    first, second = HOST_GROUPS
    hosted.deploy(tied(first, named=named))
    vms, groups = hosted.vms(), hosted.drs()
    for request, expected in (
        (tied(first, rule="should", named=named), (False, first, None)),
        (tied(second, rule="should", named=named), (False, second, None)),
        (tied(second, rule="should", affine=False, named=named), (False, None, second)),
        (tied(None, named=named), None),
        (tied(first, named=named), (True, first, None)),
    ):
        plan = hosted.plan(request)
        assert [(change.kind, change.action) for change in plan.changes] == [("group", "update")]
        hosted.deploy(request)
        rules = [
            (bool(one.mandatory), one.affineHostGroupName or None, one.antiAffineHostGroupName or None)
            for one in hosted.operator.rules("z1").values()
        ]
        assert rules == ([expected] if expected else [])
        assert (hosted.vms(), hosted.drs()) == (vms, groups)
        assert hosted.plan(request).changes == ()


def test_tying_a_group_to_hosts_later_does_not_take_an_administrators_rule(hosted: Place) -> None:
    hosted.deploy(tied(None))
    info = vim.cluster.VmHostRuleInfo(
        name="licensed.hosts", enabled=True, vmGroupName="licensed", affineHostGroupName=HOST_GROUPS[1]
    )
    spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="add", info=info)])
    hosted.operator.run(hosted.operator.cluster("z1").ReconfigureComputeResource_Task(spec, True))
    with pytest.raises(CoterieError) as caught:
        hosted.plan(tied(HOST_GROUPS[0]))
    assert "licensed.hosts" in f"{caught.value} {caught.value.details}"
    assert hosted.operator.rules("z1")["licensed.hosts"].affineHostGroupName == HOST_GROUPS[1]
    hosted.operator.remove_rule("z1", "licensed.hosts")


def test_another_policy_under_the_same_name_is_refused_by_the_plan_and_works_under_another(place: Place) -> None:
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    vms, apart = place.vms(), HOSTS.replace("host-affinity", "anti-affinity")
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("db", 2, apart, azs="z1")))
    assert "another placement.vm_group" in f"{caught.value} {caught.value.details}"
    place.deploy(manifest(group("db", 2, apart.replace("licensed", "apart"), azs="z1")))
    assert (place.drs(), place.vms()) == ({"apart": 2}, vms)


def test_a_groups_name_that_is_foreign_is_refused_by_the_plan(place: Place) -> None:
    theirs = place.operator.create_group("licensed", "host-affinity", "z2")
    before = shared().inventory()
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("db", 2, HOSTS, azs="z1")))
    assert "DRS group 'licensed' that is not ours" in f"{caught.value} {caught.value.details}"
    assert shared().inventory() == before
    place.operator.delete("server_group", theirs)


@pytest.mark.parametrize("name", ["licensed", "licensed.hosts"])
def test_a_rules_name_that_is_foreign_is_refused_by_the_plan(place: Place, name: str) -> None:
    theirs = place.operator.create_group("neighbours", "host-affinity", "z1")
    members = list(place.operator.group(theirs).vm)
    info = vim.cluster.AntiAffinityRuleSpec(name=name, enabled=True, vm=members)
    spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="add", info=info)])
    place.operator.run(place.operator.cluster("z1").ReconfigureComputeResource_Task(spec, True))
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("db", 2, HOSTS, azs="z1")))
    assert f"DRS rule {name!r} that is not ours" in f"{caught.value} {caught.value.details}"
    place.operator.remove_rule("z1", name)
    place.operator.delete("server_group", theirs)


def test_a_name_that_two_of_our_groups_want_is_refused_by_the_plan(place: Place) -> None:
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("db", 1, HOSTS, azs="z1"), group("web", 1, HOSTS, azs="z1")))
    assert "vm_group 'licensed' already" in f"{caught.value} {caught.value.details}"


def test_a_group_removed_behind_our_back_is_made_again_by_the_next_deploy(place: Place) -> None:
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    vms = place.vms()
    place.operator.remove("DC0_C0/licensed")
    place.deploy(manifest(group("db", 3, HOSTS, azs="z1")))
    assert place.drs() == {"licensed": 3}
    assert vms.items() <= place.vms().items()
    assert place.group().state == "live"


def test_a_group_removed_behind_our_back_is_noticed_refuses_vms_and_is_repaired(place: Place) -> None:
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    place.operator.remove("DC0_C0/licensed")
    place.look()
    place.look()
    assert place.group().state == "missing"
    assert len(place.event_bodies("group.missing")) == 1
    vms = place.vms()
    place.wait(operations.repair_group(place.ledger, place.group().intent, "test"))
    assert (place.group().state, place.drs(), place.vms()) == ("live", {"licensed": 2}, vms)


def test_what_changed_behind_our_back_is_reported_once_per_change_and_when_it_is_over(place: Place) -> None:
    place.deploy(manifest(group("db", 3, "placement: {policy: soft-anti-affinity}", azs="z1")))
    (rule,) = place.operator.rules("z1")
    place.look()
    place.look()
    assert (place.event_bodies("group.drifted"), place.group().drift) == ([], None)
    place.operator.remove_rule("z1", rule)
    place.look()
    place.look()
    (body,) = place.event_bodies("group.drifted")
    assert (rule in body, "repair" in body) == (True, True)
    place.operator.switch_drs("z1", False)
    place.look()
    place.look()
    assert len(place.event_bodies("group.drifted")) == 2
    assert "DRS is off" in place.event_bodies("group.drifted")[1]
    place.operator.switch_drs("z1", True)
    place.wait(operations.repair_group(place.ledger, place.group().intent, "test"))
    assert (place.group().drift, set(place.operator.rules("z1"))) == (None, {rule})
    place.operator.rejoin(f"DC0_C0/{rule}", drop=[place.operator.machine(str(place.vms()["db/1"]))])
    place.look()
    assert str(place.vms()["db/1"]) in place.event_bodies("group.drifted")[2]
    place.operator.rejoin(f"DC0_C0/{rule}", add=[place.operator.machine(str(place.vms()["db/1"]))])
    place.look()
    assert (place.group().drift, "as it was made" in place.event_bodies("group.live")[-1]) == (None, True)


def test_a_look_in_the_midst_of_a_move_calls_nothing_drifted(place: Place) -> None:
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    place.operator.rejoin("DC0_C0/licensed", drop=[place.operator.machine(str(place.vms()["db/1"]))])
    with place.ledger.write() as tx:
        tx.execute(nodes.update().where(nodes.c["index"] == 0).values(state="changing"))
    place.look()
    assert place.event_bodies("group.drifted") == []
    with place.ledger.write() as tx:
        tx.execute(nodes.update().values(state="up"))
    place.look()
    assert len(place.event_bodies("group.drifted")) == 1


def test_a_vm_made_anew_into_a_missing_group_fails_with_the_remedy_and_leaves_nothing(place: Place) -> None:
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    place.operator.remove("DC0_C0/licensed")
    place.operator.delete("vm", str(place.vms()["db/0"]))
    place.look()
    before = shared().inventory()
    task = resurrect(place.ledger, "dep")
    assert task is not None
    place.wait(task, "failed")
    problem = place.nodes()["db/0"].problem or {}
    assert (problem["code"], "groups repair" in problem["remedy"]) == ("group_missing", True)
    assert shared().inventory() == before
    place.wait(operations.repair_group(place.ledger, place.group().intent, "test"))
    place.deploy(manifest(group("db", 2, HOSTS, azs="z1")))
    assert place.drs() == {"licensed": 2}


def test_a_deployment_whose_group_is_missing_can_still_be_deleted(place: Place) -> None:
    place.deploy(manifest(group("db", 1, HOSTS, azs="z1")))
    place.operator.remove("DC0_C0/licensed")
    place.delete()
    assert place.nodes() == {}


@pytest.mark.parametrize(
    ("placement", "word"),
    [
        ("placement: {policy: host-affinity, host_group: nobody-has-this}", "nobody-has-this"),
        ("placement: {policy: host-affinity, vm_group: nobody-has-this, adopt: true}", "to adopt"),
        ("placement: {policy: anti-affinity}", "different hosts"),
    ],
)
def test_what_cannot_be_is_refused_by_the_plan_and_nothing_is_made(place: Place, placement: str, word: str) -> None:
    before = shared().inventory()
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("db", 4, placement, azs="z1")))
    assert word in f"{caught.value} {caught.value.details}"
    assert shared().inventory() == before


def test_a_host_group_of_another_cluster_is_refused_by_the_plan(place: Place) -> None:
    cluster = place.operator.cluster("z2")
    hosts = vim.cluster.HostGroup(name="elsewhere", host=place.operator.get(cluster, "host")[:1])
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=hosts)])
    place.operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
    try:
        with pytest.raises(CoterieError) as caught:
            place.plan(manifest(group("db", 1, "placement: {policy: host-affinity, host_group: elsewhere}", azs="z1")))
        assert "DC0_C1" in f"{caught.value} {caught.value.details}"
    finally:
        place.operator.remove("DC0_C1/elsewhere")


def test_drs_that_is_off_is_refused_by_the_plan(place: Place) -> None:
    place.operator.switch_drs("z1", False)
    try:
        with pytest.raises(CoterieError) as caught:
            place.plan(manifest(group("db", 1, "placement: {policy: anti-affinity}", azs="z1")))
        assert "DRS is off" in f"{caught.value} {caught.value.details}"
    finally:
        place.operator.switch_drs("z1", True)


def test_a_deployment_without_groups_asks_for_no_privilege_of_the_cluster(place: Place) -> None:
    shared().forget_calls()
    place.deploy(manifest(group("db", 2, azs="z1")))
    place.deploy(manifest(group("db", 3, azs="z1")))
    assert "ReconfigureComputeResource_Task" not in shared().methods()


def test_rights_are_granted_by_a_task(place: Place) -> None:
    place.deploy(manifest(group("db", 1, azs="z1")))
    place.wait(operations.grant(place.ledger, "lab", "ops", True, "test"))
    assert any("coterie-groups" in line for line in place.event_bodies("cloud.granted"))


OTHER_DIRECTOR = "4c8b51d7-1f0e-4a55-9a3b-6f1d20b7f0aa"


def test_a_machine_of_another_director_is_not_enrolled_and_not_destroyed(place: Place) -> None:
    """However it is recognised: by the folder it lies in, by its name, or by the group that is written on it."""
    place.deploy(manifest(group("db", 1, azs="z1")))
    runtime = Runtime(OTHER_DIRECTOR, LedgerCoordinator(place.ledger, "other"))
    other = VsphereCpi("lab", place.vcenter().properties | {"network": "VM Network"}, runtime)
    image = other.create_stemcell(
        str(place.folder / "stemcells" / "image"), {}, mark=Mark(OTHER_DIRECTOR, Ids().intent())
    )
    metadata = GroupMetadata({"name": "other", "uuid": OTHER_DIRECTOR}, "d", "g", policy="host-affinity")
    cid = other.create_server_group(metadata, mark=Mark(OTHER_DIRECTOR, Ids().intent()))
    env, size = {"bosh": {"server_group_cid": cid}}, {"cpu": 1, "ram": 512, "zone": "z1"}
    vm = other.create_vm("a", image, size, {}, [], env, mark=Mark(OTHER_DIRECTOR, Ids().intent())).cid
    machine = place.operator.machine(vm)
    acts: list[tuple[str, Callable[[], Any]]] = [
        (OTHER_DIRECTOR, lambda: place.operator.find("DC0/vm").MoveIntoFolder_Task([machine])),
        (OTHER_DIRECTOR[:8], lambda: machine.Rename_Task("renamed")),
        (OTHER_DIRECTOR[:8], lambda: machine.PowerOffVM_Task()),
    ]
    for owner, hide in acts:
        with pytest.raises(CoterieError, match=f"mark of the Director {owner}"):
            enroll(place.ledger, Enrollment("lab", vm), "test")
        place.operator.run(hide())
    with pytest.raises(CoterieError, match="is node dep/db/0 already"):
        enroll(place.ledger, Enrollment("lab", str(place.vms()["db/0"])), "test")

    theirs = place.operator.create_vm("neighbour", "z1")
    uuid = enroll(place.ledger, Enrollment("lab", theirs, "neighbour"), "test")
    place.operator.run(place.operator.machine(theirs).Rename_Task(Mark(OTHER_DIRECTOR, Ids().intent()).name()))
    task = destroy(place.ledger, uuid, "test")
    place.wait(task, "failed")
    assert "carries the mark of the Director" in place.story(task)
    assert place.operator.exists("vm", theirs)
    place.operator.run(place.operator.machine(theirs).Rename_Task("neighbour"))
    place.wait(destroy(place.ledger, uuid, "test"))
    assert not place.operator.exists("vm", theirs)
    for end, what in ((other.delete_vm, vm), (other.delete_server_group, cid), (other.delete_stemcell, image)):
        end(what)


@pytest.mark.parametrize("scrub", [True, False])
def test_a_vm_destroyed_behind_our_back_comes_back_into_its_group(tmp_path: Path, scrub: bool) -> None:
    with vcenter(*(["-scrub"] if scrub else [])) as server, placed(tmp_path, server) as place:
        text = manifest(group("db", 2, "placement: {policy: anti-affinity}", azs="z1"))
        place.deploy(text)
        gone = place.vms()["db/0"]
        place.operator.delete("vm", str(gone))
        place.look()
        place.deploy(text)
        assert list(place.drs().values()) == [2]
        assert len(set(place.vms().values()) - {gone}) == 2


def test_an_operations_user_without_the_clusters_privilege(tmp_path: Path) -> None:
    """What had no groups goes on; a manifest with groups is refused before anything is made, naming the privilege."""
    with vcenter() as server, placed(tmp_path, server) as place:
        server.enforce_roles()
        place.vcenter().grant("ops", groups=False)
        place.config = place.config.replace("user: root", "user: ops")
        place.deploy(manifest(group("db", 2, azs="z1")))
        before = server.inventory()
        with pytest.raises(CoterieError) as caught:
            place.plan(manifest(group("db", 2, HOSTS, azs="z1")))
        assert "Host.Inventory.EditCluster" in f"{caught.value} {caught.value.details}"
        assert server.inventory() == before
        place.deploy(manifest(group("db", 3, azs="z1")))


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(place: Place) -> None:
    prove_recovery(place, manifest(group("db", 3, f"{HOSTS}, persistent_disk: 1024"), group("plain", 1)))
    place.delete(delete_disks=True)


def test_each_datacenter_of_a_vcenter_is_a_cloud_of_its_own() -> None:
    """What is in another one is not found, so that a mistyped name would make all nodes missing."""
    with vcenter() as server:
        operator = VsphereOperator(server, CLUSTERS)
        operator.content.rootFolder.CreateDatacenter("DC9")
        properties = {"url": server.url, "user": "root", "password": "secret"}
        runtime = Runtime("d", None)  # type: ignore[arg-type] # nothing is created
        here, there = (
            VsphereCpi("lab", {**properties, "datacenter": name}, runtime).identity() or "" for name in ("DC0", "DC9")
        )
        operator.close()
    assert here != there
    assert here.partition(" of vCenter ")[2] == there.partition(" of vCenter ")[2] != ""


def test_eight_deployments_that_are_confirmed_at_once_all_come(place: Place) -> None:
    names = [f"dep{n}" for n in range(8)]
    text = manifest(group("db", 2, "placement: {policy: host-affinity}", azs="z1"))
    deploy_at_once(place, [text.replace("name: dep", f"name: {name}", 1) for name in names])
    assert sorted(place.drs().values()) == [2] * 8
    delete_at_once(place, names)
    assert place.drs() == {}


def test_a_promise_that_is_broken_is_told_and_the_others_are_tried(place: Place) -> None:
    text = manifest(group("vm", 2, "persistent_disk: 64, placement: {policy: anti-affinity}", azs="z1"))
    place.deploy(text.replace("name: dep", "name: deep-check-lab", 1))
    (name,) = place.drs()
    vm = place.nodes("deep-check-lab")["vm/0"].vm_cid
    place.operator.rejoin(f"DC0_C0/{name}", drop=[place.operator.machine(vm)])
    task = operations.prove(place.ledger, "lab", "test")
    place.wait(task, "failed")
    told = place.kinds(task)
    assert (told.count("proof.failed"), told.count("proof.ok") > 5) == (1, True), place.story(task)
    assert vm in place.story(task)
    shared().straighten()
    place.delete(deployment="deep-check-lab", delete_disks=True)


def test_what_was_put_back_into_a_group_is_an_event(place: Place) -> None:
    """An administrator adds a VM of theirs while the vCenter carries out our write."""
    place.deploy(manifest(group("db", 1, HOSTS, azs="z1")))
    theirs, where = place.operator.boot("admin", "z1"), f"{CLUSTERS['z1']}/licensed"
    place.server.forget_calls()
    place.server.bend("ReconfigureComputeResource_Task", "slow", ms=700, user="root")
    hands = VsphereOperator(place.server, CLUSTERS, user="administrator")
    with ThreadPoolExecutor(1) as threads:
        scaled = threads.submit(place.deploy, manifest(group("db", 2, HOSTS, azs="z1")))
        while "ReconfigureComputeResource_Task" not in place.server.methods():
            time.sleep(0.01)
        hands.rejoin(where, add=[theirs])
        scaled.result()
    hands.close()
    assert place.drs() == {"licensed": 3}
    (body,) = place.event_bodies("group.restored")
    assert ("licensed" in body, CLUSTERS["z1"] in body, "put back" in body) == (True, True, True)
    place.operator.delete("vm", place.operator.get(theirs, "config.instanceUuid"))


SITES = "{a: {cluster: DC0_C0, host_group: site-a}, b: {cluster: DC0_C0, host_group: site-b, rule: should}}"


def test_a_stretched_cluster_has_an_az_per_site(place: Place) -> None:
    old = "{z1: {cluster: DC0_C0}, z2: {cluster: DC0_C1}}"
    place.config = place.config.replace(old, SITES).replace("zone: z1}", "zone: a}").replace("zone: z2}", "zone: b}")
    text = manifest(group("db", 4, "placement: {policy: host-affinity}"))
    with pytest.raises(CoterieError) as refused:
        place.plan(text)
    assert "site-a" in str(refused.value) + str(refused.value.facts())
    cluster = place.operator.cluster("z1")
    hosts = place.operator.get(cluster, "host")
    infos = [vim.cluster.HostGroup(name=f"site-{one}", host=[hosts[n]]) for n, one in enumerate("ab")]
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=one) for one in infos])
    place.operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
    place.deploy(text)
    assert sorted((name.split(".")[0], count) for name, count in place.drs().items()) == [
        ("dep", 4),
        ("zone", 2),
        ("zone", 2),
    ]
    on = {name: place.operator.get(place.operator.machine(str(vm)), "runtime.host") for name, vm in place.vms().items()}
    first = {name for name, node in place.nodes().items() if node.az == "z1"}
    assert {on[name]._moId for name in first} == {hosts[0]._moId}
    rule = next(name for name in place.operator.rules("z1") if name.startswith("zone.a."))
    place.operator.remove_rule("z1", rule)
    place.look()
    (drift,) = place.event_bodies("group.drifted")
    assert rule in drift
    assert [change.kind for change in place.plan(text).changes] == ["group"]
    place.deploy(text)
    assert rule in place.operator.rules("z1")
    place.delete()
    assert (place.drs(), place.operator.rules("z1")) == ({}, {})
    for one in "ab":
        place.operator.remove(f"{CLUSTERS['z1']}/site-{one}")


def test_a_template_that_was_deleted_behind_our_back_is_made_again_by_the_next_deploy(place: Place) -> None:
    place.deploy(manifest(group("db", 1, azs="z1")))
    (image,) = place.held("image")
    place.operator.delete("vm", image.cid)
    more = manifest(group("db", 2, azs="z1"))
    place.deploy(more, "failed")
    assert len(place.event_bodies("stemcell.missing")) == 1
    place.deploy(more)
    assert {node.state for node in place.nodes().values()} == {"up"}
    (again,) = place.held("image")
    assert again.cid != image.cid
