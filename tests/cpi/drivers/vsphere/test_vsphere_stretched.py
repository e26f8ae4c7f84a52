"""Zones that are host groups of one cluster: a DRS VM group and a rule tie all VMs of a zone to its hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from peers.vsphere_bed import CLUSTERS, VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupInUse, InvalidCall, Needs, NoPlacement, PrivilegeMissing
from coterie.cpi.drivers.vsphere.settings import CLOUD
from vsphere.test_vsphere_drift import edit
from vsphere.test_vsphere_groups import RECONFIGURE, host_group

CLUSTER = CLUSTERS["z1"]


@pytest.fixture
def sites(bed: VsphereBed) -> Iterator[Lab]:
    """Two zones in one cluster: a must be on the first two hosts, b should be on the last one."""
    bed.more = {
        "zones": {
            "a": {"cluster": CLUSTER, "host_group": "site-a"},
            "b": {"cluster": CLUSTER, "host_group": "site-b", "rule": "should"},
            "c": {"cluster": CLUSTERS["z2"]},
        }
    }
    made = Lab(bed)
    host_group(bed, made, "site-a", 2)
    last_hosts(bed, made, "site-b")
    yield made
    made.close()
    assert [one for one in names(bed) if "zone." in one] == []
    assert list(bed.operator.rules("z1")) == []


def last_hosts(bed: VsphereBed, lab: Lab, name: str) -> None:
    cluster = bed.operator.cluster("z1")
    info = vim.cluster.HostGroup(name=name, host=bed.operator.get(cluster, "host")[2:])
    change(bed, vim.cluster.GroupSpec(operation="add", info=info))
    lab.undo(bed.operator.remove, f"{CLUSTER}/{name}")


def change(bed: VsphereBed, group: Any) -> None:
    spec = vim.cluster.ConfigSpecEx(groupSpec=[group])
    bed.operator.run(bed.operator.cluster("z1").ReconfigureComputeResource_Task(spec, True))


def vm(lab: Lab, zone: str, group: str | None = None) -> str:
    return lab.vm(group=group, cloud_properties={"cpu": 1, "ram": 256, "disk": 0, "zone": zone})


def names(bed: VsphereBed) -> list[str]:
    return [one.name for one in bed.operator.get(bed.operator.cluster("z1"), "configurationEx").group or ()]


def zone_group(bed: VsphereBed, zone: str) -> str:
    return next(one for one in names(bed) if one.startswith(f"zone.{zone}."))


def members(bed: VsphereBed, zone: str) -> set[str]:
    found = bed.operator.group(f"{CLUSTER}/{zone_group(bed, zone)}")
    return {str(bed.operator.get(one, "config.instanceUuid")) for one in found.vm}


def detail(lab: Lab, zone: str) -> str:
    items = lab.cpi.check(Needs(azs=(zone,)))
    assert [item for item in items if not item.ok] == []
    return next(item.detail for item in items if item.what == f"zone {zone}")


def test_each_vm_of_a_zone_is_tied_to_its_hosts_before_it_starts(bed: VsphereBed, sites: Lab) -> None:
    sites.image()
    bed.server.forget_calls()
    first = vm(sites, "a")
    order = [one for one in bed.server.methods() if one in ("CloneVM_Task", RECONFIGURE, "PowerOnVM_Task")]
    assert order == [
        "CloneVM_Task",
        RECONFIGURE,
        RECONFIGURE,
        "PowerOnVM_Task",
    ]  # the group, then the rule that names it
    second, third = vm(sites, "a"), vm(sites, "b")
    assert (members(bed, "a"), members(bed, "b")) == ({first, second}, {third})
    rules = bed.operator.rules("z1")
    tied = {name.split(".")[1]: (rule.affineHostGroupName, rule.mandatory) for name, rule in rules.items()}
    assert tied == {"a": ("site-a", True), "b": ("site-b", False)}
    objects = {one.cid: one for one in sites.cpi.survey("vm", bed.director_uuid).objects}
    assert [objects[one].az for one in (first, second, third)] == ["a", "a", "b"]
    assert {objects[first].host, objects[second].host} <= hosts(bed, "site-a")
    assert sites.cpi.survey("server_group", bed.director_uuid).objects == ()
    sites.cpi.delete_vm(first)
    assert members(bed, "a") == {second}
    sites.cpi.delete_vm(second)
    assert len([one for one in names(bed) if "zone." in one]) == len(bed.operator.rules("z1")) == 1


def hosts(bed: VsphereBed, name: str) -> set[str]:
    return {str(bed.operator.get(one, "name")) for one in bed.operator.group(f"{CLUSTER}/{name}").host}


def test_a_vm_is_in_its_server_group_too_and_moves_only_in_that(bed: VsphereBed, sites: Lab) -> None:
    cid = sites.group("anti-affinity")
    vms = [vm(sites, "a", cid), vm(sites, "b", cid)]
    assert {one.vm_cid for one in sites.cpi.inspect_server_group(cid).members} == set(vms)
    sites.cpi.change_server_group(vms[0], None)
    assert members(bed, "a") == {vms[0]}
    assert {one.vm_cid for one in sites.cpi.inspect_server_group(cid).members} == {vms[1]}


def test_a_zone_without_a_host_group_needs_no_privilege(bed: VsphereBed, sites: Lab) -> None:
    sites.image()
    bed.server.forget_calls()
    sites.cpi.delete_vm(vm(sites, "c"))
    assert RECONFIGURE not in bed.server.methods()


def test_where_the_hosts_or_the_privilege_are_missing_no_vm_is_left(bed: VsphereBed, sites: Lab) -> None:
    bed.operator.remove(f"{CLUSTER}/site-b")
    try:
        error = expect_error(NoPlacement, lambda: vm(sites, "b"))
        assert ("site-b" in error.what, "zone b" in error.what) == (True, True)
        failed = [item for item in sites.cpi.check(Needs(azs=("b",))) if not item.ok]
        assert [(item.what, "no host group 'site-b'" in item.detail) for item in failed] == [("zone b", True)]
    finally:
        change(bed, vim.cluster.GroupSpec(operation="add", info=vim.cluster.HostGroup(name="site-b")))
    bed.server.bend(RECONFIGURE, "fault", fault="NoPermission", times=9)
    expect_error(PrivilegeMissing, lambda: vm(sites, "a"))
    bed.server.straighten()
    assert sites.cpi.survey("vm", bed.director_uuid).objects == ()


def test_hosts_that_the_zone_may_not_use_do_not_count(bed: VsphereBed, sites: Lab) -> None:
    needs = Needs(azs=("a", "b"), policies=("anti-affinity",), counts={"anti-affinity:a": 3})
    items = {item.what: item for item in sites.cpi.check(needs)}
    (found,) = [item.facts["hosts"] for item in items.values() if item.what == "hosts" and item.facts]
    assert {one["name"] for one in found if one["az"] == "a"} == hosts(bed, "site-a")
    assert len({one["name"] for one in found if one["az"] == "b"}) == 3  # it only should be on one of them
    assert not items["anti-affinity:a"].ok


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda bed, rule: edit(bed, rule, mandatory=False), "says should, not must"),
        (lambda bed, rule: edit(bed, rule, enabled=False), "is switched off"),
        (
            lambda bed, rule: edit(bed, rule, affineHostGroupName="site-b"),
            "names the host group 'site-b', not 'site-a'",
        ),
        (lambda bed, rule: bed.operator.remove_rule("z1", rule), "was removed in cluster"),
    ],
    ids=["should", "off", "other hosts", "removed"],
)
@pytest.mark.parametrize("mended", ["by repair", "by the next VM"])
def test_a_rule_that_was_changed_is_told_and_mended(
    bed: VsphereBed, sites: Lab, spoil: Callable[[VsphereBed, str], None], word: str, mended: str
) -> None:
    cid = sites.group("host-affinity")
    vm(sites, "a", cid)
    rule = f"{zone_group(bed, 'a')}.hosts"
    before = sites.cpi.inspect_server_group(cid)
    spoil(bed, rule)
    view = sites.cpi.inspect_server_group(cid)
    assert (before.state, view.state, word in " ".join(view.notes)) == ("live", "drifted", True), view.notes
    assert word in detail(sites, "a")
    if mended == "by repair":
        sites.cpi.update_server_group(cid, sites.metadata("host-affinity"))
    else:
        vm(sites, "a")
    assert sites.cpi.inspect_server_group(cid).state == "live"
    found = bed.operator.rules("z1")[rule]
    assert (found.enabled, found.mandatory, found.affineHostGroupName) == (True, True, "site-a")
    assert detail(sites, "a") == "its VMs must be on the hosts of 'site-a'"


@pytest.mark.parametrize("mended", ["by repair", "by the next VM"])
def test_a_group_that_was_removed_is_told_and_made_again_with_all_vms_of_the_zone(
    bed: VsphereBed, sites: Lab, mended: str
) -> None:
    cid = sites.group("host-affinity")
    vms = {vm(sites, "a", cid), vm(sites, "a")}
    name = zone_group(bed, "a")
    bed.operator.remove_rule("z1", f"{name}.hosts")
    bed.operator.remove(f"{CLUSTER}/{name}")
    assert "was removed or renamed" in " ".join(sites.cpi.inspect_server_group(cid).notes)
    assert "was removed or renamed" in detail(sites, "a")
    if mended == "by repair":
        sites.cpi.update_server_group(cid, sites.metadata("host-affinity"))
    else:
        vms.add(vm(sites, "a"))
    assert members(bed, "a") == vms
    assert sites.cpi.inspect_server_group(cid).state == "live"


def test_a_member_that_was_dropped_is_told_and_comes_back(bed: VsphereBed, sites: Lab) -> None:
    cid = sites.group("host-affinity")
    one, other = vm(sites, "a", cid), vm(sites, "a", cid)
    bed.operator.rejoin(f"{CLUSTER}/{zone_group(bed, 'a')}", drop=[bed.operator.machine(one)])
    (note,) = [note for note in sites.cpi.inspect_server_group(cid).notes if one in note]
    assert "is no member of zone a any more" in note
    assert note in detail(sites, "a")
    sites.cpi.update_server_group(cid, sites.metadata("host-affinity"))
    assert members(bed, "a") == {one, other}


def test_a_zones_group_that_holds_a_foreign_vm_stays_and_is_listed_once_it_is_left(bed: VsphereBed, sites: Lab) -> None:
    mine = vm(sites, "a")
    group = f"{CLUSTER}/{zone_group(bed, 'a')}"
    foreign = bed.operator.create_vm("neighbour", "z1")
    bed.operator.rejoin(group, add=[bed.operator.machine(foreign)])
    sites.cpi.delete_vm(mine)
    assert members(bed, "a") == {foreign}
    cid = group.rpartition(".")[2]
    expect_error(GroupInUse, lambda: sites.cpi.delete_server_group(cid))
    bed.operator.rejoin(group, drop=[bed.operator.machine(foreign)])
    bed.operator.delete("vm", foreign)
    (left,) = sites.cpi.survey("server_group", bed.director_uuid).objects
    assert (left.cid, left.in_use_by) == (cid, ())
    sites.cpi.delete_server_group(cid)


def test_a_zone_that_lost_its_host_group_lets_its_vms_go(bed: VsphereBed, sites: Lab) -> None:
    """The configuration has changed since the VM was made."""
    mine = vm(sites, "a")
    bed.more = {"zones": {"a": {"cluster": CLUSTER}}}
    later = Lab(bed)
    (left,) = later.cpi.survey("server_group", bed.director_uuid).objects
    assert left.in_use_by == (mine,)
    later.cpi.delete_vm(mine)
    assert later.cpi.survey("server_group", bed.director_uuid).objects == ()
    later.close()


@pytest.mark.parametrize(
    ("zone", "word"),
    [
        ({"cluster": "c", "rule": "must"}, "rule without a host_group"),
        ({"cluster": "c", "host_group": "a", "rule": "perhaps"}, "rule: use one of: must, should"),
        ({"cluster": "c", "host_group": {"name": "a", "drs_rule": "MUST"}}, "host_group"),
    ],
)
def test_a_wrong_host_group_is_refused_by_its_field(zone: dict[str, Any], word: str) -> None:
    given = {"url": "https://vc", "user": "u", "password": "p", "datacenter": "DC0", "zones": {"z1": zone}}
    error = expect_error(InvalidCall, lambda: CLOUD.read(given, "properties"))
    told = str(error.facts())
    assert ("zone z1" in told, word in told) == (True, True), told
