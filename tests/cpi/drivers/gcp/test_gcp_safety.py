"""What must never be deleted by mistake, and what must never be left: data that people attached, VMs of other calls,
disks and snapshots of creations that failed half way."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from peers.gcp_bed import GcpBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    KEEP,
    Changed,
    CpiError,
    Expected,
    InvalidCall,
    Needs,
    OutcomeUnknown,
    QuotaExceeded,
    SecurityGroup,
    VMCreationFailed,
)
from coterie.cpi.drivers.gcp.checks import RIGHTS
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.create_vm import _Creation
from coterie.cpi.drivers.gcp.server_groups import Domains
from coterie.cpi.kit.kept_policy import YoungerStays
from coterie.cpi.kit.waits import Overdue
from coterie.sandbox.fronts.gcp.call import Call, Trick
from coterie.sandbox.fronts.gcp.refusals import ApiError
from coterie.sandbox.fronts.http_server import Reply


def shelved(bed: GcpBed, path: str) -> Any:
    found = bed.front.shelf.get(path)
    assert found is not None, path
    return found


def change(bed: GcpBed, path: str, **fields: Any) -> None:
    """Behind the API's back, as other consoles of Google's may do it."""
    with bed.front.lock:
        one = shelved(bed, path)
        one.row |= fields
        bed.front.shelf.put(one)


def counted(bed: GcpBed) -> Counter[str]:
    seen: Counter[str] = Counter()
    bed.front.watch = lambda method: seen.update([method])
    return seen


def switch_auto_delete(bed: GcpBed, vm: str, disk: str) -> None:
    path = f"zones/z1/instances/{vm.split('/')[1]}"
    disks = [dict(one) for one in shelved(bed, path).row["disks"]]
    for one in disks:
        one["autoDelete"] |= one["source"].endswith(f"/disks/{disk.split('/')[1]}")
    change(bed, path, disks=disks)


# -- data --


def test_a_persistent_disk_that_was_set_to_go_with_its_vm_stays(bed: GcpBed, lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    switch_auto_delete(bed, vm, disk)
    assert lab.cpi.get_disks(vm) == [disk]
    lab.cpi.delete_vm(vm)
    assert not lab.cpi.has_vm(vm) and lab.cpi.has_disk(disk)


def test_a_protected_vm_keeps_its_disks(bed: GcpBed, lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    switch_auto_delete(bed, vm, disk)
    path = f"zones/z1/instances/{vm.split('/')[1]}"
    change(bed, path, deletionProtection=True)
    expect_error(CpiError, lambda: lab.cpi.delete_vm(vm))
    assert lab.cpi.get_disks(vm) == [disk]
    change(bed, path, deletionProtection=False)
    lab.cpi.delete_vm(vm)


@pytest.mark.parametrize("labels", [{}, {"keep": True}])
def test_a_boot_disk_that_outlived_its_vm_goes_only_if_it_is_ours_and_nobody_keeps_it(
    bed: GcpBed, lab: Lab, labels: dict[str, bool]
) -> None:
    """An empty set: a person's disk that has the name."""
    mark = lab.mark()
    vm, path = lab.vm(mark=mark), f"zones/z1/disks/{mark.name()}-os"
    row = shelved(bed, f"zones/z1/instances/{mark.name()}").row
    change(bed, f"zones/z1/instances/{mark.name()}", disks=[{**one, "autoDelete": False} for one in row["disks"]])
    bed.operator.delete("vm", vm)
    ours = shelved(bed, path).row["labels"]
    change(bed, path, labels={**ours, KEEP: "yes"} if labels else {})
    lab.cpi.delete_vm(vm)
    assert bed.front.shelf.get(path)
    change(bed, path, labels=ours)
    lab.cpi.delete_vm(vm)
    assert not bed.front.shelf.get(path)


@pytest.mark.parametrize("part", ["os", "eph"])
def test_a_word_on_a_disk_of_a_living_vm_keeps_both_from_cleanup(bed: GcpBed, lab: Lab, part: str) -> None:
    """Google deletes them together."""
    mark = lab.mark()
    vm = lab.vm(mark=mark, cloud_properties={**bed.vm_properties("z1"), "ephemeral_disk_size_gb": 4})
    path = f"zones/z1/disks/{mark.name()}-{part}"
    labels = shelved(bed, path).row["labels"]
    change(bed, path, labels={**labels, KEEP: "yes"})
    found = lab.cpi.find("vm", mark)
    assert found
    expected = Expected(mark, found.created_at, found.etag)
    error = expect_error(Changed, lambda: lab.cpi.delete_object("vm", vm, expected))
    assert f"{vm}-{part}" in error.what and lab.cpi.has_vm(vm)
    change(bed, path, labels=labels)
    lab.cpi.delete_object("vm", vm, expected)
    assert not lab.cpi.has_vm(vm)


def test_a_failed_snapshot_is_no_snapshot(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is lost, the operation ends in an error and leaves the snapshot, FAILED."""
    disk, mark, front = lab.disk(), lab.mark(), bed.front
    fail_late(bed, monkeypatch, "snapshots", lambda path: change(bed, path, status="FAILED"))
    front.lose = lambda method: method == "snapshots.insert"
    expect_error(OutcomeUnknown, lambda: bed.open().snapshot_disk(disk, {}, mark=mark))
    front.lose = lambda method: False
    made = bed.open().snapshot_disk(disk, {}, mark=mark)
    lab.undo(lab.cpi.delete_snapshot, made)
    assert shelved(bed, f"global/snapshots/{made}").row["status"] == "READY"


def test_a_failed_snapshot_of_a_stranger_is_left(bed: GcpBed, lab: Lab) -> None:
    disk, mark = lab.disk(), lab.mark()
    body = {"name": mark.name(), "sourceDisk": f"projects/{bed.front.project}/zones/z1/disks/{disk.split('/')[1]}"}
    bed.operator.witness.ask("POST", "global/snapshots", body)
    change(bed, f"global/snapshots/{mark.name()}", status="FAILED")
    error = expect_error(CpiError, lambda: bed.open().snapshot_disk(disk, {}, mark=mark))
    assert "not its mark" in error.what
    bed.operator.witness.ask("DELETE", f"global/snapshots/{mark.name()}")


def test_a_snapshot_that_is_being_deleted_is_made_anew(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, mark = lab.disk(), lab.mark()
    first = bed.open().snapshot_disk(disk, {}, mark=mark)
    old = shelved(bed, f"global/snapshots/{first}").row["id"]
    bed.front.settings.operation_s = 0.3
    bed.operator.witness._send("DELETE", f"global/snapshots/{first}", None)
    assert shelved(bed, f"global/snapshots/{first}").row["status"] == "DELETING"
    lab.undo(lab.cpi.delete_snapshot, bed.open().snapshot_disk(disk, {}, mark=mark))
    bed.front.settings.operation_s = 0.0
    assert shelved(bed, f"global/snapshots/{first}").row["id"] != old


def fail_late(bed: GcpBed, patch: pytest.MonkeyPatch, kind: str, leave: Any) -> None:
    """The next insert of this kind is taken, ends in an error, and leaves what `leave` makes of it."""
    insert, left = bed.front.compute.any_insert, iter(range(1))

    def failing(call: Call) -> Reply:
        reply = insert(call)
        if call.method.kind == kind and next(left, None) is not None:
            path = f"{call.path}/{call.body['name']}"
            bed.front.finish_due()
            leave(path)
            operation = bed.front._operations[reply.body["name"]]
            operation.error, operation.end = ApiError(503, "backendError", "Internal error.", "INTERNAL_ERROR"), None
        return reply

    patch.setattr(bed.front.compute, "any_insert", failing)


def test_a_disk_of_an_earlier_try_is_never_removed_by_a_repeat(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try failed, the second succeeded: the repeat is told of the first one's end, and finds the disk."""
    mark = lab.mark()
    fail_late(bed, monkeypatch, "disks", lambda path: bed.front.shelf.drop(shelved(bed, path)))
    expect_error(CpiError, lambda: bed.open().create_disk(1024, {}, mark=mark))
    disk = bed.open().create_disk(1024, {}, mark=mark)
    lab.undo(lab.cpi.delete_disk, disk)
    made = shelved(bed, f"zones/z1/disks/{mark.name()}").row["id"]
    assert bed.open().create_disk(1024, {}, mark=mark) == disk
    assert shelved(bed, f"zones/z1/disks/{mark.name()}").row["id"] == made


# -- strict groups --


def copy_vm(bed: GcpBed, vm: str, name: str, **more: Any) -> str:
    """As "create similar" does it: labels and scheduling are copied."""
    row = shelved(bed, f"zones/z1/instances/{vm.split('/')[1]}").row
    cid: str = bed.operator.boot(name, "z1", labels=row["labels"], **more)
    change(bed, f"zones/z1/instances/{name}", scheduling=row["scheduling"])
    return cid


def test_a_persons_copy_of_a_member_is_no_member(bed: GcpBed, lab: Lab) -> None:
    group = lab.group("anti-affinity")
    first = lab.vm(group=group, member=0)
    lab.undo(bed.operator.delete, "vm", copy_vm(bed, first, "copy"))
    change(bed, "zones/z1/instances/copy", status="TERMINATED")
    lab.cpi.delete_vm(first)
    assert lab.cpi.has_vm(lab.vm(group=group, member=0))
    vms = [lab.vm(group=group) for _ in range(2)]
    assert all(map(lab.cpi.has_vm, vms))


def test_a_zone_that_does_not_answer_hinders_no_vm_of_another(bed: GcpBed, lab: Lab) -> None:
    group = lab.group("anti-affinity")
    lab.image()
    bed.front.unreachable = {"z2"}
    try:
        vms = [lab.vm(group=group, member=0), lab.vm(group=group)]
    finally:
        bed.front.unreachable = set()
    assert all(map(lab.cpi.has_vm, vms))


def test_the_vm_of_another_call_is_never_taken_back(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls under one mark; the one that came second fails after it found the VM."""
    arguments = lab.vm_arguments(group=lab.group("anti-affinity"), member=0)
    first = bed.open()
    find = _Creation.find_existing

    def late(self: _Creation) -> Any:
        found = find(self)
        monkeypatch.setattr(_Creation, "find_existing", find)
        lab.undo(lab.cpi.delete_vm, first.create_vm(**arguments).cid)
        return found

    monkeypatch.setattr(_Creation, "find_existing", late)
    wait = _Creation._wait_until_running

    def fails(self: _Creation, row: Any = None) -> Any:
        if self._client is first.client:  # type: ignore[attr-defined] # it is ours
            return wait(self, row)
        raise VMCreationFailed("it is not ready", remedy="repeat")

    monkeypatch.setattr(_Creation, "_wait_until_running", fails)
    expect_error(CpiError, lambda: bed.open().create_vm(**arguments))
    assert lab.cpi.has_vm(f"z1/{arguments['mark'].name()}")


def test_a_vm_that_is_late_for_its_creator_and_answered_by_a_repeat_stays(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, first = lab.vm_arguments(), bed.open()
    wait, answered = _Creation._wait_until_running, list[str]()

    def overdue(self: _Creation, row: Any = None) -> Any:
        if self._client is not first.client:  # type: ignore[attr-defined] # it is ours
            return wait(self, row)
        answered.append(lab.cpi.create_vm(**arguments).cid)
        raise Overdue("it did not run in time", remedy="raise state_timeout")

    monkeypatch.setattr(_Creation, "_wait_until_running", overdue)
    expect_error(OutcomeUnknown, lambda: first.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, answered[0])
    assert lab.cpi.has_vm(answered[0])


def test_an_elder_whose_younger_rival_stays_is_not_taken_back(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call under its mark may wait for the rival for longer, and answer it."""
    arguments, first = lab.vm_arguments(group=lab.group("anti-affinity"), member=0), bed.open()
    compare, answered = Domains.require_alone, list[str]()

    def stays(self: Domains, *more: Any) -> None:
        if self.client is not first.client:  # type: ignore[attr-defined] # it is ours
            return compare(self, *more)
        answered.append(lab.cpi.create_vm(**arguments).cid)
        raise YoungerStays("the cloud broke the policy", remedy="repeat", retryable=True)

    monkeypatch.setattr(Domains, "require_alone", stays)
    expect_error(OutcomeUnknown, lambda: first.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, answered[0])
    assert lab.cpi.has_vm(answered[0])


def test_after_a_failed_creation_the_vm_of_another_call_stays(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, answered = lab.vm_arguments(), list[str]()
    too_large = {**arguments, "cloud_properties": bed.huge_vm_properties("z1")}
    wait = Client.wait

    def fail_late(self: Client, *more: Any) -> None:
        try:
            wait(self, *more)
        except Refusal:
            if not answered:
                answered.append("")
                answered[0] = lab.cpi.create_vm(**arguments).cid
            raise

    monkeypatch.setattr(Client, "wait", fail_late)
    expect_error(OutcomeUnknown, lambda: bed.open().create_vm(**too_large))
    lab.undo(lab.cpi.delete_vm, answered[0])
    assert lab.cpi.has_vm(answered[0])


# -- what failed --


def test_a_boot_disk_that_a_failed_creation_left_does_not_block_its_mark(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation fails and leaves the disk, and the answer is lost: a repeat takes the disk away."""
    mark = lab.mark()
    arguments = lab.vm_arguments(mark=mark)
    bed.front.compute.leaves_disks = True
    huge = bed.huge_vm_properties("z1")
    bed.front.lose = lambda method: method == "instances.insert"
    expect_error(OutcomeUnknown, lambda: bed.open().create_vm(**{**arguments, "cloud_properties": huge}))
    bed.front.lose = lambda method: False
    assert bed.front.shelf.get(f"zones/z1/disks/{mark.name()}-os")
    seen = counted(bed)
    lab.undo(lab.cpi.delete_vm, bed.open().create_vm(**arguments).cid)
    assert seen["instances.insert"] == 2


def test_a_strangers_disk_that_has_the_name_is_told_and_left(bed: GcpBed, lab: Lab) -> None:
    mark = lab.mark()
    bed.operator.witness.ask("POST", "zones/z1/disks", {"name": f"{mark.name()}-os", "sizeGb": "1"})
    lab.undo(bed.operator.delete, "disk", f"z1/{mark.name()}-os")
    arguments, seen = lab.vm_arguments(mark=mark), counted(bed)
    error = expect_error(CpiError, lambda: bed.open().create_vm(**arguments))
    assert f"{mark.name()}-os" in error.why and seen["instances.insert"] == 2
    assert bed.operator.exists("disk", f"z1/{mark.name()}-os")


def test_a_failure_that_is_told_at_once_is_told_as_it_is(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = bed.front.begin

    def at_once(call: Call, target: str, *rest: Any, **more: Any) -> Reply:
        if call.method.id != "disks.insert":
            return begin(call, target, *rest, **more)
        bed.front.shelf.drop(shelved(bed, target))
        error = ApiError(403, "quotaExceeded", "Quota 'DISKS_TOTAL_GB' exceeded.", "QUOTA_EXCEEDED")
        reply = begin(call, target, error=error)
        bed.front.finish_due()
        return Reply(200, bed.front.show_operation(bed.front._operations[reply.body["name"]]))

    monkeypatch.setattr(bed.front, "begin", at_once)
    seen = counted(bed)
    expect_error(QuotaExceeded, lambda: bed.open().create_disk(1024, {}, mark=lab.mark()))
    assert seen["disks.insert"] == 2


# -- disks --


def test_a_local_ssd_is_in_nobodys_way(bed: GcpBed, lab: Lab) -> None:
    """It has no source, and is listed as a disk all the same."""
    vm, disk = lab.vm(), lab.disk()
    path = f"zones/z1/instances/{vm.split('/')[1]}"
    local = {"type": "SCRATCH", "deviceName": "local-ssd-0", "autoDelete": True, "interface": "NVME"}
    change(bed, path, disks=[local, *shelved(bed, path).row["disks"]])
    hint = lab.cpi.attach_disk(vm, disk)
    assert lab.cpi.attach_disk(vm, disk) == hint
    assert lab.cpi.get_disks(vm) == [disk]
    lab.cpi.detach_disk(vm, disk)
    assert lab.cpi.get_disks(vm) == []
    rows = shelved(bed, path).row["disks"]
    change(bed, path, disks=[one for one in rows if one.get("source")])


def test_a_disk_of_the_same_name_in_another_zone_is_another_disk(bed: GcpBed, lab: Lab) -> None:
    mark = lab.mark()
    vm, here = lab.vm(), lab.disk(mark=mark)
    there = lab.cpi.create_disk(1024, {"zone": "z2"}, mark=mark)
    lab.undo(lab.cpi.delete_disk, there)
    lab.cpi.attach_disk(vm, here)
    lab.cpi.detach_disk(vm, there)
    assert lab.cpi.get_disks(vm) == [here]
    lab.cpi.detach_disk(vm, here)


# -- where things are --


def test_a_zone_of_another_region_is_refused(bed: GcpBed, lab: Lab) -> None:
    """What is there would not be found again by its mark."""
    arguments, seen = lab.vm_arguments(), counted(bed)
    given = {**arguments["cloud_properties"], "zone": "us-east1-b"}
    for act in (
        lambda: lab.cpi.create_vm(**{**arguments, "cloud_properties": given}),
        lambda: lab.cpi.create_disk(1024, {"zone": "us-east1-b"}, mark=lab.mark()),
    ):
        error = expect_error(InvalidCall, act)
        assert "us-east1-b is not in region lab1" in error.what
    assert not {"instances.insert", "disks.insert"} & seen.keys()


# -- security groups --


def test_each_network_has_a_security_group_of_its_own_by_one_name(bed: GcpBed, lab: Lab) -> None:
    """Two clouds in one project: a group of the other network would let nothing reach the VMs of this one."""
    bed.operator.witness.ask("POST", "global/networks", {"name": "other", "autoCreateSubnetworks": False})
    wanted = lab.metadata(security_groups=[SecurityGroup("web")])
    here = lab.cpi.create_server_group(wanted, mark=lab.mark())
    lab.undo(lab.cpi.delete_server_group, here)
    bed.more["default_network"] = "other"
    cpi = bed.open()
    there = cpi.create_server_group(wanted, mark=lab.mark())
    networks = [
        one.row["network"].rpartition("/")[2] for one in bed.front.shelf.every("firewalls") if not one.row["disabled"]
    ]
    assert sorted(networks) == ["default", "other"]
    cpi.delete_server_group(there)
    assert bed.operator.exists("server_group", here)


def test_an_operators_rule_of_another_network_is_refused(bed: GcpBed, lab: Lab) -> None:
    witness = bed.operator.witness
    witness.ask("POST", "global/networks", {"name": "other", "autoCreateSubnetworks": False})
    body = {"name": "web", "network": f"projects/{bed.front.project}/global/networks/other", "targetTags": ["web"]}
    witness.ask(
        "POST", "global/firewalls", {**body, "sourceRanges": ["10.0.0.0/8"], "allowed": [{"IPProtocol": "tcp"}]}
    )
    lab.undo(bed.operator.delete, "security_group", "web")
    asked = lab.metadata(security_groups=[SecurityGroup("web", adopt=True)])
    error = expect_error(CpiError, lambda: lab.cpi.create_server_group(asked, mark=lab.mark()))
    assert "is of network other" in str(error)


def test_a_failed_security_group_removes_nothing_of_others(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the failure and the removal another call made the group."""
    made, answer = list[str](), bed.front.answer

    def make_theirs(verb: str, url: str, raw: bytes) -> Reply:
        reply = answer(verb, url, raw)
        if verb == "POST" and "/global/firewalls?" in url and not made:
            body = {**json.loads(raw), "description": "theirs"}
            made.append(body["name"])
            bed.front.compute._put(f"global/firewalls/{made[0]}", body)
        return reply

    monkeypatch.setattr(bed.front, "answer", make_theirs)
    bed.front.tricks.append(Trick("fail", "firewalls.insert"))
    wanted = lab.metadata(security_groups=[SecurityGroup("web")])
    expect_error(CpiError, lambda: bed.open().create_server_group(wanted, mark=lab.mark()))
    assert bed.operator.exists("security_group", made[0])
    bed.operator.delete("security_group", made[0])


def test_a_shared_vpc_is_asked_about_its_network_in_its_own_project(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.more["xpn_host_project_id"] = "host-project"
    cpi, ask = bed.open(), Client.ask_url
    asked: dict[str, list[str]] = {}

    def of_two_projects(self: Client, what: str, url: str, verb: str = "GET", body: Any = None) -> Any:
        project = url.partition("/projects/")[2].partition("/")[0].partition(":")[0]
        if url.endswith(":testIamPermissions"):
            asked[project] = body["permissions"]
            kept = [one for one in body["permissions"] if one != "compute.firewalls.create"]
            return {"permissions": kept if project == "host-project" else body["permissions"]}
        if url.endswith("/projects/host-project"):
            return {"quotas": [{"metric": "FIREWALLS", "limit": 7.0, "usage": 3.0}]}
        return ask(self, what, url, verb, body)

    monkeypatch.setattr(Client, "ask_url", of_two_projects)
    items = {one.what: one for one in cpi.check()}
    assert "compute.firewalls.create in host-project" in items["rights"].detail
    assert {one.split(".")[1] for one in asked["host-project"]} == {"firewalls", "networks", "subnetworks"}
    assert not {one.split(".")[1] for one in asked[bed.front.project]} & {"firewalls", "networks", "subnetworks"}
    assert items["quotas"].facts["quotas"]["firewall_rules"] == {"limit": 7, "used": 3}


RULES = (
    {"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},
    {"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8", "direction": "egress"},
)


def test_a_plan_counts_the_firewall_rules_that_are_still_to_be_made(bed: GcpBed, lab: Lab) -> None:
    """A security group is one, one for each of its rules, and one that keeps the rest in; a server group has one for
    its record. What is there is not needed again; an operator's group needs none."""
    web, theirs = SecurityGroup("web", RULES), SecurityGroup("theirs", adopt=True)
    wanted: dict[str, Any] = {"name": "broker", "policy": lab.policy, "security_groups": [web.wire(), theirs.wire()]}

    def quotas(limit: int) -> Any:
        bed.front.settings.firewalls = limit
        (item,) = [one for one in lab.cpi.check(Needs(groups=(wanted,))) if one.what == "quotas"]
        return item

    here = len(list(bed.front.shelf.every("firewalls")))
    assert quotas(here + 5).ok
    assert "firewall_rules: 5 more needed" in quotas(here + 4).detail
    bed.front.settings.firewalls = here + 5
    wanted["security_groups"] = [web.wire()]
    wanted["cid"] = lab.group(security_groups=[web])
    assert len(list(bed.front.shelf.every("firewalls"))) == here + 5
    assert quotas(here + 5).ok
    more = SecurityGroup("web", (*RULES, {"protocol": "tcp", "ports": "22", "cidr": "10.0.0.0/8"}))
    wanted["security_groups"] = [more.wire()]
    assert "firewall_rules: 1 more needed" in quotas(here + 5).detail


def test_rights_on_the_subnetwork_alone_count(bed: GcpBed, lab: Lab) -> None:
    """As with a shared VPC, of which a project may use one subnetwork."""
    on_it = {right for right in RIGHTS if right.startswith("compute.subnetworks.")}
    bed.peer.identity.permissions = set(RIGHTS) - on_it

    def item() -> Any:
        return next(one for one in lab.cpi.check() if one.what == "rights")

    assert "compute.subnetworks.use" in item().detail
    subnetwork = shelved(bed, "regions/lab1/subnetworks/default")
    subnetwork.facts["granted"] = sorted(on_it)
    assert item().ok
    subnetwork.facts["granted"] = ["compute.subnetworks.use"]
    assert "compute.subnetworks.get" in item().detail and "subnetworks.use," not in item().detail
    bed.peer.identity.permissions = None
