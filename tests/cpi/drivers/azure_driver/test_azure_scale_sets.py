"""Server groups as Flexible scale sets: living VMs join and leave them, they span zones, and since Azure deletes their
VMs with them, none with a VM in it or on its way is ever deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.azure_bed import ScaleSetBed, Witness, path_of
from tests.cpi.drivers.azure_driver.test_azure_complaints import on
from tests.cpi.drivers.azure_driver.test_azure_kills import every_kill, every_lost_answer

from coterie.cpi.conformance.expect import expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    Cpi,
    CpiError,
    Expected,
    GroupInUse,
    GroupMissing,
    InvalidCall,
    Mark,
    Needs,
    NotSupported,
    SecurityGroup,
)
from coterie.sandbox.fronts.azure.call import LOCATION
from coterie.sandbox.fronts.azure.groups import Groups

WEB, DATABASE = SecurityGroup("web"), SecurityGroup("database")
FLEXIBLE: dict[str, Any] = {
    "orchestrationMode": "Flexible",
    "platformFaultDomainCount": 1,
    "singlePlacementGroup": False,
}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ScaleSetBed]:
    made = ScaleSetBed(tmp_path)
    yield made
    made.close()


def resource(bed: ScaleSetBed, kind: str, name: str) -> dict[str, Any]:
    return dict(Witness(bed.peer).ask("GET", path_of(kind, name)))


def security_group_of(bed: ScaleSetBed, vm: str) -> str | None:
    found = resource(bed, "port", f"{vm}-0")["properties"].get("networkSecurityGroup")
    return str(found["id"]).rsplit("/", 1)[-1] if found else None


def members(cpi: Cpi, group: str) -> set[str]:
    return {one.vm_cid for one in cpi.inspect_server_group(group).members}


def patch_set(bed: ScaleSetBed, group: str, tags: dict[str, str]) -> None:
    has = resource(bed, "scale_set", group)["tags"]
    Witness(bed.peer).ask("PATCH", path_of("scale_set", group), {"tags": {**has, **tags}})


def zone(bed: ScaleSetBed, number: str) -> dict[str, Any]:
    return {**bed.vm_properties("region"), "availability_zone": number}


# -- living VMs that move --


def test_a_living_vm_joins_changes_and_leaves_a_set_with_its_security_group(bed: ScaleSetBed, lab: Lab) -> None:
    one, other = lab.group(security_groups=[WEB]), lab.group(security_groups=[DATABASE])
    vm, cpi = lab.vm(), lab.cpi
    assert cpi.capabilities().moves_members
    was = resource(bed, "vm", vm)["properties"]["vmId"]
    cpi.change_server_group(vm, one)
    assert (members(cpi, one), members(cpi, other)) == ({vm}, set())
    web = security_group_of(bed, vm)
    cpi.change_server_group(vm, other)
    cpi.change_server_group(vm, other)
    assert (members(cpi, one), members(cpi, other)) == (set(), {vm})
    assert security_group_of(bed, vm) not in (None, web)
    cpi.change_server_group(vm, None)
    assert members(cpi, other) == set() and security_group_of(bed, vm) is None
    assert resource(bed, "vm", vm)["properties"]["vmId"] == was
    assert cpi.vm_owner(vm) == bed.director_uuid
    assert cpi.find("vm", Mark.of_wire(_mark(bed, vm)))


def _mark(bed: ScaleSetBed, vm: str) -> dict[str, str]:
    tags = resource(bed, "vm", vm)["tags"]
    return {"director": tags["coterie-director"], "intent": tags["coterie-intent"]}


def test_a_move_that_azure_refuses_leaves_the_vm_as_it_was(bed: ScaleSetBed, lab: Lab) -> None:
    one, other = lab.group(security_groups=[WEB]), lab.group(security_groups=[DATABASE])
    vm = lab.vm(group=one)
    before = security_group_of(bed, vm)

    def spoil() -> None:
        found = bed.peer.front.shelf.get(path_of("scale_set", other))
        assert found
        found.properties["platformFaultDomainCount"] = 3
        bed.peer.front.shelf.put(found)

    on(bed, "PATCH", "/virtualMachines/", spoil)
    error = expect_error(CpiError, lambda: lab.cpi.change_server_group(vm, other))
    assert "fault domains" in error.why
    assert members(lab.cpi, one) == {vm} and security_group_of(bed, vm) == before
    assert resource(bed, "vm", vm)["tags"]["coterie-group"] == one


def test_a_set_that_closes_while_a_vm_moves_is_left_again(bed: ScaleSetBed, lab: Lab) -> None:
    one, other = lab.group(), lab.group()
    vm = lab.vm(group=one)
    on(bed, "PATCH", "/virtualMachines/", lambda: patch_set(bed, other, {"coterie-closing": "x"}))
    expect_error(GroupMissing, lambda: lab.cpi.change_server_group(vm, other))
    assert (members(lab.cpi, one), members(lab.cpi, other)) == ({vm}, set())


def test_a_vm_that_others_change_meanwhile_moves_all_the_same(bed: ScaleSetBed, lab: Lab) -> None:
    group, vm = lab.group(), lab.vm()
    on(bed, "PATCH", "/virtualMachines/", lambda: bed.open().set_vm_metadata(vm, {"who": "another"}))
    lab.cpi.change_server_group(vm, group)
    assert members(lab.cpi, group) == {vm}
    assert resource(bed, "vm", vm)["tags"]["who"] == "another"


def test_a_vm_of_an_availability_set_cannot_move(bed: ScaleSetBed, lab: Lab) -> None:
    spread = bed.more.pop("spread")
    cid = bed.open().create_server_group(lab.metadata(), mark=lab.mark())
    lab.undo(bed.open().delete_server_group, cid)
    vm = lab.vm(group=cid)
    bed.more["spread"] = spread
    cpi = bed.open()
    group = lab.group()
    error = expect_error(NotSupported, lambda: cpi.change_server_group(vm, group))
    assert "availabilitySet" in error.what and "--recreate" in error.remedy
    assert members(cpi, cid) == {vm}
    assert cpi.inspect_server_group(cid).state == "live"
    cpi.update_server_group(cid, lab.metadata())


def test_a_living_vm_cannot_join_an_availability_set(bed: ScaleSetBed, lab: Lab) -> None:
    spread = bed.more.pop("spread")
    cid = bed.open().create_server_group(lab.metadata(), mark=lab.mark())
    lab.undo(bed.open().delete_server_group, cid)
    bed.more["spread"] = spread
    vm = lab.vm()
    error = expect_error(NotSupported, lambda: lab.cpi.change_server_group(vm, cid))
    assert "availability set" in error.what and "--recreate" in error.remedy


def test_a_vm_that_was_taken_out_of_its_set_is_told_and_put_back(bed: ScaleSetBed, lab: Lab) -> None:
    """By an update, as for a group that was deleted: living VMs can join."""
    group = lab.group()
    vm, other = lab.vm(group=group), lab.vm(group=group)
    out = {"properties": {"virtualMachineScaleSet": {"id": None}}}
    Witness(bed.peer).ask("PATCH", path_of("vm", vm), out)
    view = lab.cpi.inspect_server_group(group)
    assert [one.vm_cid for one in view.members] == [other]
    assert view.state == "drifted" and vm in view.notes[0]
    lab.cpi.update_server_group(group, lab.metadata())
    assert members(lab.cpi, group) == {vm, other}
    assert lab.cpi.inspect_server_group(group).state == "live"


def test_without_scale_sets_no_vm_moves(bed: ScaleSetBed, lab: Lab) -> None:
    vm, group = lab.vm(), lab.group()
    del bed.more["spread"]
    cpi = bed.open()
    assert not cpi.capabilities().moves_members
    expect_error(NotSupported, lambda: cpi.change_server_group(vm, group))


# -- the guard: Azure deletes the VMs of a scale set with it --


def test_a_set_with_a_member_is_kept_also_an_operators(bed: ScaleSetBed, lab: Lab) -> None:
    group = lab.group()
    theirs = bed.operator.join(
        bed.operator.create_vm("theirs", lab.az), lab.cpi.inspect_server_group(group).resources[0]
    )
    lab.undo(bed.operator.delete, "vm", theirs)
    error = expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(group))
    assert "theirs" in error.why
    assert bed.operator.exists("vm", theirs)


@pytest.mark.parametrize("by", ["delete_server_group", "cleanup"])
def test_a_member_that_no_list_shows_yet_is_not_deleted_with_its_set(bed: ScaleSetBed, lab: Lab, by: str) -> None:
    """Lists lag: at the first look the set seems to be empty, and while it closes they catch up."""
    mark = lab.mark()
    group = lab.group(mark=mark)
    lab.image()
    settings = bed.peer.front.settings
    settings.list_lag_s = 1000.0
    vm, cpi = lab.vm(group=group), bed.open()
    assert members(cpi, group) == set(), "the list shows it already, so this proves nothing"
    on(bed, "PATCH", "/virtualMachineScaleSets/", lambda: setattr(settings, "list_lag_s", 0.0))
    if by == "cleanup":
        expect_error(GroupInUse, lambda: cpi.delete_object("server_group", group, Expected(mark, None, None)))
    else:
        expect_error(GroupInUse, lambda: cpi.delete_server_group(group))
    assert bed.operator.exists("vm", vm)
    assert cpi.inspect_server_group(group).state == "live", "the set takes VMs again"
    lab.vm(group=group)


def test_a_vm_that_is_made_while_its_set_is_being_deleted_is_refused_and_leaves_nothing(
    bed: ScaleSetBed, lab: Lab
) -> None:
    """The set closes after the first look at it, while the NIC is made."""
    group = lab.group()
    lab.image()
    on(bed, "PUT", "/networkInterfaces/", lambda: patch_set(bed, group, {"coterie-closing": "x"}))
    before = bed.inventory()
    error = expect_error(GroupMissing, lambda: lab.cpi.create_vm(**lab.vm_arguments(None, group)))
    assert "being deleted" in error.why and "deploy again" in error.remedy
    assert bed.inventory() == before


def test_vms_and_the_deletion_of_their_set_never_end_in_a_dead_vm(bed: ScaleSetBed, lab: Lab) -> None:
    """Whichever comes first: either the VM is refused, or the set stays."""
    lab.image()
    bed.more["settle_s"] = 2.0  # longer than a creation takes from its last look to its request
    for pause in (0.0, 0.1):
        group = bed.open().create_server_group(lab.metadata(), mark=lab.mark())
        arguments = lab.vm_arguments(None, group)

        def create(arguments: dict[str, Any] = arguments) -> str | None:
            try:
                return bed.open().create_vm(**arguments).cid
            except GroupMissing:
                return None

        def delete(group: str = group, pause: float = pause) -> bool:
            time.sleep(pause)
            try:
                bed.open().delete_server_group(group)
            except GroupInUse:
                return False
            return True

        vm, deleted = together([create, delete])
        assert vm is None or (bed.operator.exists("vm", vm) and not deleted)
        if vm:
            bed.open().delete_vm(vm)
        bed.open().delete_server_group(group)


def test_a_deletion_that_was_begun_is_ended_by_a_repeat_or_taken_back_by_an_update(bed: ScaleSetBed, lab: Lab) -> None:
    group = lab.group()
    patch_set(bed, group, {"coterie-closing": "x"})
    view = lab.cpi.inspect_server_group(group)
    assert view.state == "drifted" and "deletion" in view.notes[0]
    lab.cpi.update_server_group(group, lab.metadata())
    assert lab.cpi.inspect_server_group(group).state == "live"
    patch_set(bed, group, {"coterie-closing": "x"})
    lab.cpi.delete_server_group(group)
    assert not bed.operator.exists("server_group", group)


def test_a_set_that_is_opened_again_while_it_is_deleted_stays(bed: ScaleSetBed, lab: Lab) -> None:
    """Right before the last look at its members."""
    group = lab.group()

    def open_again() -> None:
        bed.open().update_server_group(group, lab.metadata())

    on(bed, "PATCH", "/virtualMachineScaleSets/", lambda: on(bed, "GET", "/virtualMachines", open_again))
    error = expect_error(GroupInUse, lambda: bed.open().delete_server_group(group))
    assert "opened again" in error.why
    assert bed.operator.exists("server_group", group)


def test_a_set_that_was_deleted_behind_our_back_is_made_again(bed: ScaleSetBed, lab: Lab) -> None:
    group = lab.group()
    Witness(bed.peer).ask("DELETE", path_of("scale_set", group))
    lab.cpi.update_server_group(group, lab.metadata())
    vm = lab.vm(group=group)
    assert members(lab.cpi, group) == {vm}


def test_tags_of_operators_stay_on_a_set(bed: ScaleSetBed, lab: Lab) -> None:
    group = lab.group()
    patch_set(bed, group, {"owner": "ops", "coterie-closing": "x"})
    lab.cpi.update_server_group(group, lab.metadata())
    tags = resource(bed, "scale_set", group)["tags"]
    assert tags["owner"] == "ops" and "coterie-closing" not in tags


def test_cleanup_sees_sets_of_both_kinds_and_their_members(bed: ScaleSetBed, lab: Lab) -> None:
    used, empty = lab.group(), lab.group()
    vm = lab.vm(group=used)
    del bed.more["spread"]
    cpi = bed.open()
    plain = cpi.create_server_group(lab.metadata(), mark=lab.mark())
    found = {one.cid: one for one in cpi.survey("server_group", bed.director_uuid).objects}
    assert {used: (vm,), empty: (), plain: ()} == {cid: found[cid].in_use_by for cid in (used, empty, plain)}
    for cid in (empty, plain):
        cpi.delete_object("server_group", cid, Expected(found[cid].mark, found[cid].created_at, None))
    expect_error(
        CpiError,
        lambda: cpi.delete_object("server_group", used, Expected(found[used].mark, found[used].created_at, None)),
    )
    assert {used} == {cid for kind, cid in bed.inventory() if kind == "server_group"}


# -- adopted sets --


def make_set(bed: ScaleSetBed, name: str, **changed: Any) -> None:
    body = {"location": LOCATION, "properties": {**FLEXIBLE, **changed}}
    Witness(bed.peer).ask("PUT", path_of("scale_set", name), body)


def test_an_operators_set_is_joined_and_never_deleted(bed: ScaleSetBed, lab: Lab) -> None:
    make_set(bed, "theirs")
    lab.undo(bed.operator.delete, "server_group", "theirs")
    cid = lab.group(options={"name": "theirs", "adopt": True})
    vm = lab.vm()
    lab.cpi.change_server_group(vm, cid)
    assert members(lab.cpi, cid) == {vm}
    lab.cpi.change_server_group(vm, None)
    lab.cpi.delete_server_group(cid)
    assert bed.operator.exists("server_group", "theirs")


@pytest.mark.parametrize("changed", [{"platformFaultDomainCount": 3}, {"singlePlacementGroup": True}])
def test_a_set_that_no_living_vm_can_join_is_not_adopted(bed: ScaleSetBed, lab: Lab, changed: dict[str, Any]) -> None:
    make_set(bed, "theirs", **changed)
    lab.undo(bed.operator.delete, "server_group", "theirs")
    asked = lab.metadata(options={"name": "theirs", "adopt": True})
    expect_error(NotSupported, lambda: lab.cpi.create_server_group(asked, mark=lab.mark()))
    group: dict[str, Any] = {"name": "a", "policy": lab.policy, "options": {"name": "theirs", "adopt": True}}
    assert [one for one in lab.cpi.check(Needs(groups=(group,))) if not one.ok and "theirs" in one.detail]


# -- zones --


def test_a_set_spans_zones_and_the_audit_shows_them(bed: ScaleSetBed, lab: Lab) -> None:
    bed.more["scale_set_zones"] = ["1", "2"]
    cpi = bed.open()
    group = cpi.create_server_group(lab.metadata(), mark=lab.mark())
    lab.undo(bed.open().delete_server_group, group)
    vms = {number: lab.vm(group=group, cloud_properties=zone(bed, number)) for number in ("1", "2")}
    found = {one.vm_cid: one.domain for one in cpi.inspect_server_group(group).members}
    assert found == {vms["1"]: "1", vms["2"]: "2"}
    assert cpi.capabilities().domains == {"soft-anti-affinity": "zone"}


def test_a_vm_outside_the_zones_of_its_set_is_refused_before_anything_is_made(bed: ScaleSetBed, lab: Lab) -> None:
    bed.more["scale_set_zones"] = ["1", "2"]
    group = bed.open().create_server_group(lab.metadata(), mark=lab.mark())
    lab.undo(bed.open().delete_server_group, group)
    lab.image()
    before = bed.inventory()
    for properties in (zone(bed, "3"), bed.vm_properties(lab.az)):
        arguments = lab.vm_arguments(None, group, cloud_properties=properties)
        error = expect_error(InvalidCall, lambda arguments=arguments: bed.open().create_vm(**arguments))
        assert "availability_zone" in error.what and "scale_set_zones" in error.remedy
    assert bed.inventory() == before
    regional = lab.vm()
    expect_error(InvalidCall, lambda: bed.open().change_server_group(regional, group))


def test_a_zone_that_is_added_to_the_cloud_comes_to_its_sets_by_repair(bed: ScaleSetBed, lab: Lab) -> None:
    bed.more["scale_set_zones"] = ["1"]
    group = bed.open().create_server_group(lab.metadata(), mark=lab.mark())
    lab.undo(bed.open().delete_server_group, group)
    bed.more["scale_set_zones"] = ["1", "2"]
    bed.open().update_server_group(group, lab.metadata())
    lab.vm(group=group, cloud_properties=zone(bed, "2"))


def findings(bed: ScaleSetBed, policy: str, azs: list[str]) -> list[str]:
    group: dict[str, Any] = {"name": "broker", "policy": policy, "azs": azs}
    items = bed.open().check(Needs(azs=tuple(azs), groups=(group,)))
    return [f"{one.what}: {one.detail}; {one.remedy}" for one in items if not one.ok]


def test_azs_that_no_set_could_have_are_refused_by_the_plan(bed: ScaleSetBed, lab: Lab) -> None:
    assert findings(bed, "soft-anti-affinity", ["region"]) == []
    (found,) = findings(bed, "soft-anti-affinity", ["1", "2"])
    assert found.startswith("server group broker: azs: ") and "scale_set_zones" in found
    bed.more["scale_set_zones"] = ["1", "2"]
    assert findings(bed, "soft-anti-affinity", ["1", "2"]) == []
    assert "take no VMs of region" in findings(bed, "soft-anti-affinity", ["1", "region"])[0]
    del bed.more["scale_set_zones"], bed.more["spread"]
    (found,) = findings(bed, "anti-affinity", ["1"])
    assert "exclude each other" in found and "spread: scale-set" in found


def test_zones_that_the_region_does_not_have_are_refused_by_check(
    bed: ScaleSetBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.more["scale_set_zones"] = ["1", "3"]
    monkeypatch.setattr(Groups, "zones", lambda front: {"1": "z1", "2": "z2"})
    assert "availability zone 3" in findings(bed, "soft-anti-affinity", [])[0]


# -- properties --


def test_what_scale_sets_cannot_promise_is_refused_with_the_properties(bed: ScaleSetBed, lab: Lab) -> None:
    assert bed.open().capabilities().policies == {"soft-anti-affinity"}
    bed.more["policies"] = ["soft-anti-affinity", "anti-affinity"]
    error = expect_error(CpiError, bed.open)
    assert "policies" in f"{error.what} {error.why}"
    bed.more.update(policies=["anti-affinity"], spread="availability-set", scale_set_zones=["1"])
    error = expect_error(CpiError, bed.open)
    assert "scale_set_zones" in f"{error.what} {error.why}"


def test_the_limit_and_the_quota_are_those_of_scale_sets(bed: ScaleSetBed, lab: Lab) -> None:
    limit = bed.open().capabilities().group_limit("soft-anti-affinity")
    assert limit.members == 1000
    lab.group()
    (quotas,) = [one for one in lab.cpi.check(Needs(counts={"server_group": 1})) if one.what == "quotas"]
    assert quotas.facts and quotas.facts["quotas"]["server_groups"] == {"limit": 2500, "used": 1}


# -- killed, and cut off --


def acts(bed: ScaleSetBed, lab: Lab) -> dict[str, Callable[[Cpi, Mark], Any]]:
    one, other = lab.group(security_groups=[WEB]), lab.group(security_groups=[DATABASE])
    vm = lab.vm(group=one)

    def move(cpi: Cpi, mark: Mark) -> None:
        cpi.change_server_group(vm, other)
        cpi.change_server_group(vm, None)
        cpi.change_server_group(vm, one)
        assert members(bed.open(), one) == {vm}

    def group(cpi: Cpi, mark: Mark) -> None:
        cid = cpi.create_server_group(lab.metadata(), mark=mark)
        cpi.update_server_group(cid, lab.metadata())
        cpi.delete_server_group(cid)

    lab.cpi.change_server_group(vm, other)  # makes the label of its security group, which stays with that
    lab.cpi.change_server_group(vm, one)
    return {"move": move, "group": group}


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("name", ["move", "group"])
def test_killed_after_each_call(bed: ScaleSetBed, lab: Lab, name: str, repeat: bool) -> None:
    act = acts(bed, lab)[name]
    kept = {cid for _, cid in bed.inventory()}
    assert every_kill(bed, act, kept, lab.mark, repeat=repeat) > 3


@pytest.mark.parametrize("name", ["move", "group"])
def test_without_each_answer(bed: ScaleSetBed, lab: Lab, name: str) -> None:
    act = acts(bed, lab)[name]
    kept = {cid for _, cid in bed.inventory()}
    assert every_lost_answer(bed, act, kept, lab.mark) >= 1
