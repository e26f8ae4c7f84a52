"""What users of other drivers for Azure complained of, one test each: availability sets that pile up, NICs that stay,
polling without end, throttling that is read as emptiness."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from peers.azure_bed import AzureBed, Witness, path_of

from coterie.cpi.conformance.expect import expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    CpiError,
    Expected,
    GroupInUse,
    GroupMissing,
    Needs,
    NoPlacement,
    NotSupported,
    OutcomeUnknown,
    QuotaExceeded,
    SecurityGroup,
    Throttled,
    read_rules,
)
from coterie.cpi.drivers.azure import client as client_module
from coterie.cpi.drivers.azure.driver import AzureCpi
from coterie.sandbox.fronts.azure.front import Trick
from coterie.sandbox.fronts.azure.shelf import Resource
from coterie.sandbox.quotas import set_quota


def resources(bed: AzureBed, kind: str) -> set[str]:
    return {cid for found, cid in bed.inventory() if found == kind}


def on(bed: AzureBed, method: str, ending: str, act: Callable[[], object]) -> None:
    """Do something right before the next such request is taken."""

    def watch(given: str, path: str) -> None:
        if given == method and ending in path:
            bed.peer.front.watch = lambda method, path: None
            act()

    bed.peer.front.watch = watch


def test_bosh_azure_303_empty_sets_do_not_pile_up_until_the_quota_is_reached(bed: AzureBed, lab: Lab) -> None:
    set_quota(bed.peer.front.account.datacenter, "kit", "server_groups", 1)
    for _ in range(3):
        lab.cpi.delete_server_group(lab.cpi.create_server_group(lab.metadata(), mark=lab.mark()))
    lab.group()
    expect_error(QuotaExceeded, lambda: lab.cpi.create_server_group(lab.metadata(), mark=lab.mark()))
    items = lab.cpi.check(Needs(counts={"server_group": 1}))
    (quotas,) = [one for one in items if one.what == "quotas"]
    assert not quotas.ok and quotas.facts
    assert quotas.facts["quotas"]["server_groups"] == {"limit": 1, "used": 1}


@pytest.mark.parametrize(("what", "word"), [("cpu", "cores"), ("instances", "instances")])
def test_an_exhausted_quota_is_told_before_anything_is_made(bed: AzureBed, lab: Lab, what: str, word: str) -> None:
    """A VM has at least one core."""
    lab.vm()
    set_quota(bed.peer.front.account.datacenter, "kit", what, 2)
    (quotas,) = [one for one in lab.cpi.check(Needs(counts={"vm": 2})) if one.what == "quotas"]
    assert not quotas.ok and "instances: 2 more needed, 1 of 2 used" in quotas.detail, word
    assert "raise the limit" in quotas.remedy
    set_quota(bed.peer.front.account.datacenter, "kit", what, None)


def test_bosh_azure_236_a_vm_without_a_group_gets_no_set(bed: AzureBed, lab: Lab) -> None:
    """As VMs that compile."""
    lab.vm()
    assert resources(bed, "server_group") == set()


def test_bosh_azure_450_no_lock_is_held_and_the_refusal_of_azure_is_the_lock(bed: AzureBed, lab: Lab) -> None:
    """A VM joins after the last look at the members, and before the set is deleted."""
    group = lab.group()
    lab.image()
    on(
        bed,
        "DELETE",
        "/availabilitySets/",
        lambda: lab.undo(lab.cpi.delete_vm, bed.open().create_vm(**lab.vm_arguments(None, group)).cid),
    )
    expect_error(GroupInUse, lambda: bed.open().delete_server_group(group))
    assert len(lab.cpi.inspect_server_group(group).members) == 1


def test_bosh_azure_627_an_operators_set_that_became_empty_is_kept(bed: AzureBed, lab: Lab) -> None:
    bed.operator.create_group("theirs", lab.policy, lab.az)
    lab.undo(bed.operator.delete, "server_group", "theirs")
    cid = lab.group(options={"name": "theirs", "adopt": True})
    lab.cpi.delete_vm(lab.vm(group=cid))
    lab.cpi.delete_server_group(cid)
    assert bed.operator.exists("server_group", "theirs")


def test_bosh_azure_528_a_set_that_vanishes_between_look_and_use_says_what_to_do(bed: AzureBed, lab: Lab) -> None:
    group = lab.group()
    lab.image()
    on(bed, "PUT", "/virtualMachines/", lambda: bed.operator.delete("server_group", group))
    error = expect_error(GroupMissing, lambda: lab.cpi.create_vm(**lab.vm_arguments(None, group)))
    assert "deploy again" in error.remedy
    assert resources(bed, "port") == set()


def test_bosh_azure_367_a_size_that_the_hardware_of_a_set_lacks_is_told_with_those_that_it_has(
    bed: AzureBed, lab: Lab
) -> None:
    """The first VM of a set ties it to a cluster."""
    group = lab.group()
    lab.vm(group=group)
    found = bed.peer.front.shelf.get(path_of("server_group", group))
    assert found
    found.facts["sizes"] = ["Standard_B1s", "Standard_B2s"]
    bed.peer.front.shelf.put(found)
    before = bed.inventory()
    properties = {"instance_type": "Standard_D2s_v5"}
    error = expect_error(
        NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(None, group, cloud_properties=properties))
    )
    assert "no size Standard_D2s_v5" in error.what
    assert "Standard_B1s, Standard_B2s" in error.why and "new server group" in error.remedy
    assert bed.inventory() == before


def test_bosh_azure_265_a_set_is_never_deleted_and_made_again_under_its_name(bed: AzureBed, lab: Lab) -> None:
    group = lab.group(security_groups=[SecurityGroup("a")])
    seen: list[tuple[str, str]] = []
    bed.peer.front.watch = lambda method, path: seen.append((method, path))
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[SecurityGroup("b")]))
    assert [one for one in seen if one[0] in ("PUT", "DELETE") and "/availabilitySets/" in one[1]] == []


def test_bosh_azure_366_a_nic_reserved_for_a_failed_vm_is_waited_for_and_its_address_is_free(
    bed: AzureBed, lab: Lab
) -> None:
    lab.image()
    networks = bed.networks(lab.az, bed.address(lab.az))
    huge = bed.huge_vm_properties(lab.az)
    error = expect_error(
        NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(networks=networks, cloud_properties=huge))
    )
    assert "capacity" in error.why
    assert resources(bed, "port") == resources(bed, "vm") == set()
    lab.vm(networks=networks)


def test_karpenter_azure_92_a_nic_that_stays_reserved_is_left_to_cleanup_and_not_forgotten(
    bed: AzureBed, lab: Lab
) -> None:
    lab.image()
    bed.peer.front.settings.nic_reservation_s = 3600
    bed.more["state_timeout"] = 0.1
    mark, huge = lab.mark(), bed.huge_vm_properties(lab.az)
    expect_error(OutcomeUnknown, lambda: bed.open().create_vm(**lab.vm_arguments(cloud_properties=huge, mark=mark)))
    found = lab.cpi.find("port", mark)
    assert found
    for nic in bed.peer.front.shelf.every("Microsoft.Network/networkInterfaces"):
        nic.facts.pop("reserved_until")
    lab.cpi.delete_object("port", found.cid, Expected(mark, found.created_at, found.etag))
    assert lab.cpi.find("port", mark) is None


def test_bosh_azure_765_a_nic_that_no_list_shows_is_deleted_by_its_name(bed: AzureBed, lab: Lab) -> None:
    lab.image()
    bed.peer.front.settings.list_lag_s = 3600
    huge = bed.huge_vm_properties(lab.az)
    expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=huge)))
    mark = lab.mark()
    vm = lab.vm(mark=mark)
    assert lab.cpi.survey("vm", bed.director_uuid).objects == ()
    assert lab.cpi.find("vm", mark)
    lab.cpi.delete_vm(vm)
    assert resources(bed, "port") == set()


def test_bosh_azure_366_a_conflict_is_no_end_but_an_answer(bed: AzureBed, lab: Lab) -> None:
    """Rules of one group are written one after the other, although Azure takes some time for each."""
    bed.peer.front.settings.operation_s = 0.05
    rules = tuple({"protocol": "tcp", "ports": str(port), "cidr": "10.0.0.0/8"} for port in range(80, 84))
    marks = [lab.mark(), lab.mark()]
    wanted = lab.metadata(security_groups=[SecurityGroup("web", rules)])
    cids = together([lambda mark=mark: bed.open().create_server_group(wanted, mark=mark) for mark in marks])
    for cid in cids:
        lab.undo(lab.cpi.delete_server_group, cid)
    (one,) = [one for one in lab.cpi.inspect_server_group(cids[0]).resources if one.kind == "security_group"]
    assert one.rules and len([rule for rule in one.rules if rule["direction"] == "ingress"]) == len(rules)
    bed.peer.front.settings.operation_s = 0.0


def test_bosh_azure_check_completion_polling_ends_and_says_where_the_operation_is(bed: AzureBed, lab: Lab) -> None:
    bed.more["state_timeout"] = 0.1
    bed.peer.front.settings.operation_s = 1.0
    mark = lab.mark()
    error = expect_error(OutcomeUnknown, lambda: bed.open().create_disk(1024, {}, mark=mark))
    assert "DiskOperations" in error.details["operation"]
    del bed.more["state_timeout"]
    bed.peer.front.settings.operation_s = 0.0
    lab.undo(lab.cpi.delete_disk, mark.name())
    assert bed.open().create_disk(1024, {}, mark=mark) == mark.name()


def test_bosh_azure_359_a_vm_that_failed_minutes_later_is_removed_with_all_its_parts(bed: AzureBed, lab: Lab) -> None:
    bed.peer.front.settings.operation_s = 0.1
    lab.image()
    huge = {**bed.huge_vm_properties(lab.az), "ephemeral_disk": {"size": 4096}}
    expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=huge)))
    bed.peer.front.settings.operation_s = 0.0
    assert {kind for kind, _ in bed.inventory()} == {"image"}


def test_a_vm_whose_operation_fails_between_two_looks_says_why(bed: AzureBed, lab: Lab) -> None:
    """The operation still runs when it is asked, and has failed when the VM is read."""
    lab.image()
    settings, operations = bed.peer.front.settings, bed.peer.front.operations

    def end() -> None:
        settings.operation_s = 0.0
        for one in operations._open:
            one.due = 0.0

    def begin() -> None:
        settings.operation_s = 1000.0
        on(bed, "GET", "/virtualMachines/", end)

    on(bed, "PUT", "/virtualMachines/", begin)
    huge = bed.huge_vm_properties(lab.az)
    error = expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=huge)))
    assert "capacity" in error.why


def test_a_vm_that_runs_is_not_waited_for_until_its_agent_answers(bed: AzureBed, lab: Lab) -> None:
    lab.image()
    arguments = lab.vm_arguments()
    arguments["networks"] = bed.networks(lab.az, None) | {"default": {"type": "dynamic", "cloud_properties": {}}}
    bed.peer.front.settings.operation_s = 5.0
    begun = time.monotonic()
    vm = lab.cpi.create_vm(**arguments).cid
    assert time.monotonic() - begun < 5.0
    found = bed.peer.front.shelf.get(path_of("vm", vm))
    assert found and found.state == "Creating"
    bed.peer.front.settings.operation_s = 0.0
    lab.undo(lab.cpi.delete_vm, vm)


def test_a_survey_costs_calls_by_pages_and_not_by_objects(bed: AzureBed, lab: Lab) -> None:
    for number in range(6):
        lab.group(security_groups=[SecurityGroup(f"kit-{number}")])
        lab.vm()
    for kind in ("vm", "port", "disk", "image", "security_group"):
        page = bed.open().survey(kind, bed.director_uuid)
        assert page.next is None and page.calls <= (3 if kind == "image" else 2), kind


def test_autoscaler_2817_throttling_is_an_answer_and_never_emptiness(bed: AzureBed, lab: Lab) -> None:
    lab.vm()
    bed.more["retries"] = 0
    for kind, type_ in (("vm", "virtualMachines"), ("port", "networkInterfaces")):
        bed.peer.front.tricks.append(Trick("throttle", "GET", type_))
        expect_error(Throttled, lambda kind=kind: bed.open().survey(kind, bed.director_uuid))


def test_azure_docs_117342_parts_of_a_vm_that_was_deleted_by_force_go_with_delete_vm(bed: AzureBed, lab: Lab) -> None:
    vm = lab.vm()
    found = bed.peer.front.shelf.get(path_of("vm", vm))
    assert found
    for reference in found.properties["networkProfile"]["networkInterfaces"]:
        reference["properties"]["deleteOption"] = "Detach"
    Witness(bed.peer).ask("DELETE", path_of("vm", vm))
    assert resources(bed, "port") == {f"{vm}-0"}
    lab.cpi.delete_vm(vm)
    assert resources(bed, "port") == set()


def test_two_writers_do_not_lose_each_others_disks(bed: AzureBed, lab: Lab) -> None:
    vm, disks = lab.vm(cloud_properties={"instance_type": "Standard_D8s_v5"}), [lab.disk() for _ in range(4)]
    bed.peer.front.settings.operation_s = 0.02
    hints = together([lambda disk=disk: bed.open().attach_disk(vm, disk) for disk in disks])
    bed.peer.front.settings.operation_s = 0.0
    assert sorted(lab.cpi.get_disks(vm)) == sorted(disks)
    assert len({hint["lun"] for hint in hints}) == 4  # type: ignore[index] # a SCSI size
    for disk in disks:
        lab.cpi.detach_disk(vm, disk)


def test_a_change_that_was_superseded_may_be_repeated(bed: AzureBed, lab: Lab) -> None:
    error = client_module.Refusal("x", "CanceledAndSupersededDueToAnotherOperation", "", 409)
    assert error.kind.retryable


def test_a_set_and_a_zone_exclude_each_other(bed: AzureBed, lab: Lab) -> None:
    group = lab.group()
    properties = {**bed.vm_properties(lab.az), "availability_zone": "1"}
    error = expect_error(
        CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(None, group, cloud_properties=properties))
    )
    assert "availability_zone" in error.what


def test_a_disk_follows_its_vm_into_its_zone(bed: AzureBed, lab: Lab) -> None:
    vm = lab.vm(cloud_properties={**bed.vm_properties(lab.az), "availability_zone": "2"})
    disk = lab.disk(vm_cid=vm)
    assert lab.cpi.attach_disk(vm, disk)
    lab.cpi.detach_disk(vm, disk)
    regional = lab.disk()
    expect_error(CpiError, lambda: lab.cpi.attach_disk(vm, regional))


def test_two_security_groups_of_one_server_group_are_refused_beforehand(bed: AzureBed, lab: Lab) -> None:
    both = [SecurityGroup("a"), SecurityGroup("b")]
    expect_error(NotSupported, lambda: lab.cpi.create_server_group(lab.metadata(security_groups=both), mark=lab.mark()))
    group: dict[str, Any] = {"name": "broker", "policy": lab.policy, "security_groups": [one.wire() for one in both]}
    assert [one.what for one in lab.cpi.check(Needs(groups=(group,))) if not one.ok] == ["server group broker"]


def test_ids_in_another_case_are_the_same(bed: AzureBed, lab: Lab) -> None:
    bed.more["resource_group"] = "MACHINES"
    group = lab.group()
    vm, disk = lab.vm(group=group), lab.disk()
    other = bed.open()
    other.attach_disk(vm, disk)
    assert other.get_disks(vm) == [disk]
    assert [one.vm_cid for one in other.inspect_server_group(group).members] == [vm]
    other.detach_disk(vm, disk)


def test_a_token_that_expired_is_renewed_once(bed: AzureBed, lab: Lab) -> None:
    lab.disk()
    bed.peer.identity.expire()
    before = bed.peer.identity.requests
    lab.disk()
    assert bed.peer.identity.requests == before + 1


def test_a_wrong_secret_is_told_by_name_and_not_shown(bed: AzureBed, lab: Lab) -> None:
    bed.more["client_secret"] = "not-the-secret"
    cpi = bed.open()
    assert isinstance(cpi, AzureCpi)
    (item,) = cpi.check()
    assert not item.ok and item.what == "credentials"
    assert "not-the-secret" not in f"{item.detail} {item.remedy}"


@pytest.mark.parametrize(
    ("properties", "word"), [({"availability_set": "x"}, "placement"), ({"load_balancer": "x"}, "balancer")]
)
def test_words_of_the_other_cpi_are_refused_with_the_remedy(
    bed: AzureBed, lab: Lab, properties: Any, word: str
) -> None:
    given = {**bed.vm_properties(lab.az), **properties}
    error = expect_error(CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=given)))
    assert word in f"{error.what} {error.remedy}"


def test_an_image_that_a_vm_of_another_resource_group_uses_is_in_use(bed: AzureBed, lab: Lab) -> None:
    image, front = lab.image(), bed.peer.front
    theirs = front.path("others", "Microsoft.Compute/virtualMachines", "theirs")
    profile = {"storageProfile": {"imageReference": {"id": path_of("image", image)}}}
    front.shelf.put(Resource(theirs, "Microsoft.Compute/virtualMachines", "theirs", {"properties": profile}, 0.0))
    (found,) = [one for one in lab.cpi.survey("image", bed.director_uuid).objects if one.cid == image]
    assert found.in_use_by == ("others/theirs",)
    assert found.mark
    assert lab.cpi.find("image", found.mark) == found
    (row,) = front.shelf.every("Microsoft.Compute/virtualMachines")
    front.shelf.drop(row)


def _person(**changed: Any) -> dict[str, Any]:
    """A rule as the portal writes it."""
    rule = {"protocol": "Tcp", "access": "Allow", "direction": "Inbound", "priority": 4000}
    ends = {"sourceAddressPrefix": "10.1.0.0/16", "sourcePortRange": "*", "destinationAddressPrefix": "*"}
    return {**rule, **ends, "destinationPortRange": "22", **changed}


@pytest.mark.parametrize(
    ("name", "rule", "drift"),
    [
        ("theirs", _person(sourceAddressPrefix="Internet"), "ingress tcp 22 from service tag Internet"),
        ("theirs", _person(access="Deny", priority=101), "ingress tcp 22 from rule theirs"),
        ("theirs", _person(destinationAddressPrefix="10.0.0.4"), "ingress tcp 22 from rule theirs"),
        (
            "theirs",
            _person(direction="Outbound", destinationAddressPrefix="Storage", sourceAddressPrefix="*"),
            "egress tcp 22 to service tag Storage",
        ),
        ("cot-deny-in", None, "ingress any from what cot-deny-in denied"),
        (
            "cot-deny-in",
            _person(sourceAddressPrefix="VirtualNetwork", destinationPortRange="*"),
            "ingress any from what cot-deny-in denied",
        ),
    ],
)
def test_what_a_person_changed_in_azures_own_words_is_drift_and_goes(
    bed: AzureBed, lab: Lab, name: str, rule: dict[str, Any] | None, drift: str
) -> None:
    web = SecurityGroup("kit-web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},))
    group = lab.group(security_groups=[web])
    (cid,) = resources(bed, "security_group")
    before = _rules(lab, group)
    path = f"{path_of('security_group', cid)}/securityRules/{name}"
    if rule is None:
        Witness(bed.peer).ask("DELETE", path)
    else:
        Witness(bed.peer).ask("PUT", path, {"properties": rule})
    assert set(_rules(lab, group)) - set(before) >= {drift}
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[web]))
    assert _rules(lab, group) == before == ["ingress tcp 80 from 10.0.0.0/8"]
    listed = Witness(bed.peer).ask("GET", path_of("security_group", cid))["properties"]["securityRules"]
    deny = next(one["properties"] for one in listed if one["name"] == "cot-deny-in")
    assert (deny["access"], deny["priority"], deny["protocol"]) == ("Deny", 4096, "*")


def _rules(lab: Lab, group: str) -> list[str]:
    found = lab.cpi.inspect_server_group(group).resources
    return sorted(str(rule) for one in found for rule in read_rules(one.rules or ()))
