"""Which datastores and hosts count, and which properties of BOSH's own CPI are taken or refused."""

from __future__ import annotations

from typing import Any

import pytest
from peers.vsphere_bed import CLUSTERS, VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, GroupMissing, InvalidCall, Needs, NoDiskSpace
from coterie.cpi.drivers.vsphere.placement import Placement
from coterie.cpi.drivers.vsphere.settings import read_settings
from vsphere.test_vsphere_groups import host_group

SMALL = {"cpu": 1, "ram": 256, "disk": 0, "zone": "z1"}


def stores_of(bed: VsphereBed, vm: str) -> set[str]:
    return {one.partition("]")[0].strip("[") for one in bed.operator.disk_files(bed.operator.machine(vm))}


def zone(bed: VsphereBed, **more: Any) -> None:
    bed.more = {"zones": {"z1": {"cluster": CLUSTERS["z1"], **more}, "z2": {"cluster": CLUSTERS["z2"]}}}


def patterns(properties: dict[str, Any], own: tuple[str, ...], disk: bool) -> list[tuple[str, ...]]:
    given = {"url": "https://vc", "user": "u", "password": "p", "datacenter": "DC0", **properties}
    settings = read_settings(given)
    place: Any = Placement(None, None, None, settings, {})  # type: ignore[arg-type]  # nothing is called
    cluster: Any = type("Cluster", (), {"settings": next(iter(settings.zones.values()))})
    found: list[tuple[str, ...]] = place.patterns([cluster], own, disk=disk)
    return found


@pytest.mark.parametrize(
    ("cloud", "in_zone", "own", "vm", "disk"),
    [
        ({}, {}, (), [("*",)], [("*",)]),
        ({"datastores": ["a"]}, {}, (), [("a",)], [("a",)]),
        ({"persistent_datastores": ["p"]}, {"datastores": ["z"]}, (), [("z",)], [("p",)]),
        ({"datastores": ["a"]}, {"datastores": ["z"]}, (), [("z",)], [("z",)]),
        ({}, {"datastores": ["z"], "persistent_datastores": ["y"]}, (), [("z",)], [("y",)]),
        ({"persistent_datastores": ["p"]}, {}, ("t",), [("t",)], [("t",)]),
        ({"persistent_datastores": ["p"]}, {"datastores": ["z"]}, ("t",), [("t",), ("z",)], [("t",)]),
    ],
)
def test_the_nearest_patterns_count_and_no_setting_is_passed_over(
    cloud: dict[str, Any], in_zone: dict[str, Any], own: tuple[str, ...], vm: Any, disk: Any
) -> None:
    properties = {**cloud, "zones": {"z1": {"cluster": "c", **in_zone}}}
    assert (patterns(properties, own, False), patterns(properties, own, True)) == (vm, disk)


def test_a_vm_types_datastores_count_beside_those_of_the_zone(bed: VsphereBed) -> None:
    zone(bed, datastores=["LocalDS_*"])
    lab = Lab(bed)
    vm = lab.vm(cloud_properties={**SMALL, "datastores": ["LocalDS_1"]})
    assert stores_of(bed, vm) == {"LocalDS_1"}
    error = expect_error(NoDiskSpace, lambda: lab.vm(cloud_properties={**SMALL, "datastores": ["other-*"]}))
    assert ("other-*" in error.why, "LocalDS_*" in error.why) == (True, True)
    lab.close()


def test_a_datastore_of_a_single_host_takes_nothing_that_must_move(bed: VsphereBed) -> None:
    bed.more = {"datastores": ["*"]}
    bed.server.make_local("LocalDS_0")
    lab = Lab(bed)
    try:
        assert {stores_of(bed, lab.vm(cloud_properties=SMALL)).pop() for _ in range(4)} == {"LocalDS_1"}
        assert lab.disk().endswith("@LocalDS_1")
        bed.more = {"datastores": ["LocalDS_0"]}
        error = expect_error(NoDiskSpace, lambda: Lab(bed).image())
        assert "local_datastores" in error.remedy
        bed.more = {"datastores": ["LocalDS_0"], "local_datastores": True}
        alone = Lab(bed)
        alone.image()
        alone.close()
    finally:
        bed.server.make_local("LocalDS_0", False)
        bed.more = {"datastores": ["*"]}
        lab.close()


def test_hosts_that_a_must_rule_allows_are_told_to_the_planner(bed: VsphereBed, lab: Lab) -> None:
    host_group(bed, lab, "two", 2)
    group = {"name": "web", "policy": "anti-affinity", "azs": ["z1"], "options": {"host_group": "two"}}
    items = lab.cpi.check(Needs(azs=("z1",), policies=("anti-affinity",), groups=(group,)))
    (tied,) = [item.facts["hosts"] for item in items if item.what == "hosts of server group web" and item.facts]
    assert len(tied) == 2


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("datacenters", [{"name": "DC0"}], "properties.zones"),
        ("host_group", {"name": "a"}, "properties.zones"),
        ("storage_policy", {"name": "gold"}, "datastores"),
        ("tags", [], "custom attributes"),
        ("nsxt", {"ns_groups": []}, "NSX"),
        ("pci_passthroughs", [], "enroll"),
        ("vgpus", [], "enroll"),
        ("disable_drs", True, "override"),
        ("upgrade_hw_version", True, "stemcell"),
    ],
)
def test_a_property_of_boshs_cpi_that_is_not_built_is_refused_with_what_to_do(
    lab: Lab, key: str, value: Any, word: str
) -> None:
    error = expect_error(InvalidCall, lambda: lab.vm(cloud_properties={**SMALL, key: value}))
    assert (key in error.what, word in error.remedy) == (True, True)


def test_properties_of_boshs_cpi_that_are_built(bed: VsphereBed, lab: Lab) -> None:
    properties = {
        **SMALL,
        "vmx_options": {"sched.mem.pin": "TRUE"},
        "cpu_hot_add_enabled": True,
        "memory_hot_add_enabled": True,
        "nested_hardware_virtualization": True,
        "memory_reservation_locked_to_max": True,
        "cpu_reserve_full_mhz": True,
        "root_disk_size_gb": 8,
    }
    bed.server.forget_calls()
    machine = bed.operator.machine(lab.vm(cloud_properties=properties))
    devices = bed.operator.get(machine, "config.hardware.device")
    root = next(one for one in devices if isinstance(one, vim.vm.device.VirtualDisk) and one.unitNumber == 0)
    extra = {one.key: one.value for one in bed.operator.get(machine, "config.extraConfig")}
    assert (root.capacityInKB, extra["sched.mem.pin"]) == (8 * 1024 * 1024, "TRUE")
    spec = bed.server.last("CloneVM_Task")
    for word in ("cpuHotAddEnabled", "memoryHotAddEnabled", "nestedHVEnabled", "memoryReservationLockedToMax"):
        assert f"<{word}>true</{word}>" in spec
    assert "<cpuAllocation><reservation>" in spec


def test_a_vm_joins_the_administrators_group_that_its_type_names(bed: VsphereBed, lab: Lab) -> None:
    expect_error(GroupMissing, lambda: lab.vm(cloud_properties={**SMALL, "vm_group": "licensed"}))
    theirs = bed.operator.create_group("licensed", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    vm = lab.vm(cloud_properties={**SMALL, "vm_group": "licensed"})
    assert bed.operator.machine(vm)._moId in {one._moId for one in bed.operator.group(theirs).vm}
    both = {**SMALL, "vm_group": "licensed"}
    assert (
        "beside a server group"
        in expect_error(InvalidCall, lambda: lab.vm(group=lab.group(), cloud_properties=both)).what
    )
    lab.cpi.delete_vm(vm)
    assert len(bed.operator.group(theirs).vm) == 2


def test_of_a_zones_clusters_only_those_that_have_the_group_are_chosen(bed: VsphereBed) -> None:
    bed.more = {"zones": {"both": {"clusters": list(CLUSTERS.values())}, "other": {"cluster": CLUSTERS["z2"]}}}
    lab = Lab(bed)
    theirs = bed.operator.create_group("licensed", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    lab.image()
    bed.server.forget_calls()
    for _ in range(4):
        lab.vm(cloud_properties={**SMALL, "zone": "both", "vm_group": "licensed"})
    assert bed.server.methods().count("CloneVM_Task") == 4
    assert len(bed.operator.group(theirs).vm) == 6
    error = expect_error(
        GroupMissing, lambda: lab.vm(cloud_properties={**SMALL, "zone": "other", "vm_group": "licensed"})
    )
    assert (CLUSTERS["z2"] in error.what, "zone other" in error.why) == (True, True)
    assert bed.server.methods().count("CloneVM_Task") == 4
    lab.close()


def test_the_check_counts_only_datastores_that_can_be_used(bed: VsphereBed) -> None:
    bed.more = {"datastores": ["LocalDS_0"], "persistent_datastores": ["LocalDS_1"]}
    bed.server.make_local("LocalDS_1")
    try:
        failed = [item for item in bed.open().check(Needs(azs=("z1",))) if not item.ok]
        assert {item.what for item in failed} == {"datastores z1", "datastores z2"}
        assert ("persistent disks" in failed[0].detail, "local_datastores" in failed[0].remedy) == (True, True)
        bed.more = {**bed.more, "local_datastores": True}
        assert [item for item in bed.open().check(Needs(azs=("z1",))) if not item.ok] == []
    finally:
        bed.server.make_local("LocalDS_1", False)


def test_a_preallocated_disk_is_taken(lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.cpi.create_disk(16, {"type": "preallocated"}, mark=mark)
    lab.cpi.delete_disk(cid)


def test_a_custom_attribute_of_another_kind_is_a_clear_error(bed: VsphereBed, lab: Lab) -> None:
    vm = lab.vm()
    bed.server.bend("AddCustomFieldDef", "fault", fault="DuplicateName", detail="<name>owner</name>")
    error = expect_error(CpiError, lambda: lab.cpi.set_vm_metadata(vm, {"owner-of-it": "ops"}))
    assert ("owner-of-it" in error.what, "another kind" in error.why) == (True, True)


def test_a_missing_privilege_names_the_object_by_its_path(bed: VsphereBed, lab: Lab) -> None:
    cluster = bed.operator.cluster("z1")
    cid = lab.group()
    detail = f'<object type="ClusterComputeResource">{cluster._moId}</object><privilegeId>P</privilegeId>'
    bed.server.bend("ReconfigureComputeResource_Task", "fault", fault="NoPermission", detail=detail)
    error = expect_error(CpiError, lambda: lab.vm(group=cid))
    assert "DC0/host/DC0_C0" in error.what
