"""What Azure took is never called refused, and what it made by halves is removed or told of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peers.azure_bed import GROUP, SUBSCRIPTION, AzureBed, Witness, path_of
from peers.product_cleanup import clean

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CloudObject, CpiError, OutcomeUnknown, SecurityGroup, Throttled, VMCreationFailed
from coterie.cpi.drivers.azure import client as client_module
from coterie.cpi.drivers.azure.client import Client, Refusal
from coterie.cpi.drivers.azure.driver import AzureCpi
from coterie.cpi.drivers.azure.machines import Machines
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.kit.marking import mark_tags
from coterie.sandbox.fronts.azure.call import LOCATION, Call
from coterie.sandbox.fronts.azure.front import Trick
from coterie.sandbox.fronts.azure.refusals import ApiError
from coterie.sandbox.fronts.http_server import Reply

NETWORKS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network/virtualNetworks"
SUBNET = f"{NETWORKS}/default/subnets/default"


def at(bed: AzureBed, method: str, ending: str, act: Callable[[], object]) -> None:
    """Do something right before the first such request is taken."""

    def watch(given: str, path: str) -> None:
        if given == method and ending in path:
            bed.peer.front.watch = lambda method, path: None
            act()

    bed.peer.front.watch = watch


def fail_in_the_end(bed: AzureBed, type_: str) -> None:
    """Azure takes each PUT of this type; what it makes is in state Failed, and stays."""
    front, key = bed.peer.front, f"PUT {type_}"
    put = front.handlers[key]

    def failing(call: Call) -> Reply:
        reply = put(call)
        made = front.shelf.get(call.path)
        assert made
        made.state = "Failed"
        front.shelf.put(made)
        return Reply(reply.status, {**reply.body, "properties": {"provisioningState": "Failed"}})

    front.handlers[key] = failing


@pytest.mark.parametrize("type_", ["disks", "networkInterfaces"])
def test_a_throttled_question_after_a_change_is_no_refusal(bed: AzureBed, lab: Lab, type_: str) -> None:
    lab.image()
    bed.more["retries"] = 0
    mark = lab.mark()
    at(bed, "PUT", f"/{type_}/", lambda: bed.peer.front.tricks.append(Trick("throttle", "GET", type_)))
    arguments = lab.vm_arguments(mark=mark)

    def create() -> str:
        cpi = bed.open()
        return cpi.create_disk(1024, {}, mark=mark) if type_ == "disks" else str(cpi.create_vm(**arguments).cid)

    expect_error(OutcomeUnknown, create)
    found = create()
    lab.undo(lab.cpi.delete_disk if type_ == "disks" else lab.cpi.delete_vm, found)


def test_a_refused_look_at_the_operation_is_no_refusal_of_the_change(
    bed: AzureBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, mark = Client._send, lab.mark()

    def refuse(self: Client, what: str, method: str, url: str, *rest: Any, **keywords: Any) -> Any:
        if "DiskOperations" in url:
            raise Refusal(what, "AuthorizationFailed", "a role was taken away", 403)
        return send(self, what, method, url, *rest, **keywords)

    monkeypatch.setattr(Client, "_send", refuse)
    expect_error(OutcomeUnknown, lambda: bed.open().create_disk(1024, {}, mark=mark))
    monkeypatch.undo()
    lab.undo(lab.cpi.delete_disk, bed.open().create_disk(1024, {}, mark=mark))


@pytest.mark.parametrize("type_", ["disks", "networkInterfaces"])
def test_what_failed_in_the_end_is_removed(bed: AzureBed, lab: Lab, type_: str) -> None:
    lab.image()
    before = bed.inventory()
    fail_in_the_end(bed, type_)
    arguments = lab.vm_arguments()
    calls = {
        "disks": lambda: bed.open().create_disk(1024, {}, mark=lab.mark()),
        "networkInterfaces": lambda: bed.open().create_vm(**arguments).cid,
    }
    error = expect_error(CpiError, calls[type_])
    assert not isinstance(error, OutcomeUnknown)
    assert bed.inventory() == before


def test_a_vm_that_fails_while_a_repeat_waits_for_it_is_removed(bed: AzureBed, lab: Lab) -> None:
    mark = lab.mark()
    arguments = lab.vm_arguments(mark=mark)
    before = bed.inventory()
    vm = bed.open().create_vm(**arguments).cid
    made = bed.peer.front.shelf.get(path_of("vm", vm))
    assert made
    read, looks = Machines.read, itertools.count()

    def failing(self: Machines, cid: str) -> Any:
        row = read(self, cid)
        if row:
            row["properties"]["provisioningState"] = "Creating" if next(looks) == 0 else "Failed"
        return row

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machines, "read", failing)
        expect_error(VMCreationFailed, lambda: bed.open().create_vm(**arguments))
    assert bed.inventory() == before


def test_a_throttled_look_at_a_new_vm_does_not_delete_it(bed: AzureBed, lab: Lab) -> None:
    lab.image()
    bed.more["retries"] = 0
    throttle = Trick("throttle", "GET", "virtualMachines")
    at(bed, "PUT", "/virtualMachines/", lambda: bed.peer.front.tricks.append(throttle))
    lab.undo(lab.cpi.delete_vm, bed.open().create_vm(**lab.vm_arguments()).cid)


def test_an_operators_vm_in_our_set_keeps_its_security_group_and_ours_their_dns(bed: AzureBed, lab: Lab) -> None:
    group = lab.group(security_groups=[SecurityGroup("a")])
    ours, theirs = lab.vm(group=group), lab.vm(group=group)
    shelf = bed.peer.front.shelf
    other, nic = shelf.get(path_of("vm", theirs)), shelf.get(path_of("port", f"{ours}-0"))
    assert other and nic
    tags, other.body["tags"] = other.body["tags"], {}
    shelf.put(other)
    nic.properties["dnsSettings"] = {"dnsServers": ["10.0.0.53"]}
    shelf.put(nic)
    before = Witness(bed.peer).ask("GET", path_of("port", f"{theirs}-0"))["properties"]["networkSecurityGroup"]
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[SecurityGroup("b")]))
    changed = Witness(bed.peer).ask("GET", path_of("port", f"{ours}-0"))["properties"]
    after = Witness(bed.peer).ask("GET", path_of("port", f"{theirs}-0"))["properties"]["networkSecurityGroup"]
    other.body["tags"] = tags
    shelf.put(other)
    assert after == before != changed["networkSecurityGroup"]
    assert changed["dnsSettings"]["dnsServers"] == ["10.0.0.53"]


def test_a_second_nic_whose_first_is_gone_is_found_and_deleted(bed: AzureBed, lab: Lab) -> None:
    mark = lab.mark()
    nic = {
        "location": LOCATION,
        "tags": mark_tags(mark),
        "properties": {"ipConfigurations": [{"name": "a", "properties": {"subnet": {"id": SUBNET}}}]},
    }
    Witness(bed.peer).ask("PUT", path_of("port", f"{mark.name()}-1"), nic)
    assert lab.cpi.find("port", mark)
    lab.cpi.delete_vm(mark.name())
    assert lab.cpi.find("port", mark) is None
    assert ("port", f"{mark.name()}-1") not in bed.inventory()


def test_an_upload_that_breaks_off_leaves_no_disk(bed: AzureBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def throttle(*_: Any) -> None:
        raise Throttled("slow down", remedy="repeat later")

    before = bed.inventory()
    monkeypatch.setattr(Stemcells, "_make_image", throttle)
    expect_error(Throttled, lambda: bed.open().create_stemcell(*bed.image(), mark=lab.mark()))
    assert bed.inventory() == before


def test_an_upload_goes_on_where_it_broke_off_and_tells_how_far_it_is(bed: AzureBed, lab: Lab, tmp_path: Path) -> None:
    """Of the very same disk; pages of one that is gone count for nothing."""
    image, told, sent = tmp_path / "large", list[str](), list[int]()
    image.write_bytes(bytes(range(1, 251)) * (20 * 2**20 // 250))
    (tmp_path / "state").mkdir()
    front, upload = bed.peer.front, bed.peer.front.upload
    fails = [8 * 2**20]

    def count(sas: str, begin: int, raw: bytes) -> None:
        if fails and begin >= fails[0]:
            raise ApiError(503, "ServerBusy", "The server is busy.")
        sent.append(begin)
        upload(sas, begin, raw)

    front.upload = count  # type: ignore[method-assign] # the instance's
    bed.more["retries"] = 0
    cpi = bed.open()
    runtime = replace(cpi.runtime, state_folder=tmp_path / "state", report=lambda kind, body: told.append(body))
    cpi, mark = AzureCpi("lab", cpi.properties, runtime), lab.mark()
    expect_error(OutcomeUnknown, lambda: cpi.create_stemcell(str(image), {}, mark=mark))
    assert sent == [0, 4 * 2**20]
    fails.clear()
    sent.clear()
    stemcell = cpi.create_stemcell(str(image), {}, mark=mark)
    assert sent[0] == 8 * 2**20 and len(told) >= 3 and told[-1].endswith("80 % of 20 MiB")
    assert list((tmp_path / "state").iterdir()) == []
    cpi.delete_stemcell(stemcell)
    other = lab.mark()
    fails.append(8 * 2**20)
    expect_error(OutcomeUnknown, lambda: cpi.create_stemcell(str(image), {}, mark=other))
    Witness(bed.peer).ask("POST", f"{path_of('disk', other.name())}/endGetAccess")
    bed.operator.delete("disk", other.name())
    fails.clear()
    sent.clear()
    cpi.delete_stemcell(cpi.create_stemcell(str(image), {}, mark=other))
    assert sent[0] == 0


def test_a_security_group_on_a_subnet_keeps_its_rules(bed: AzureBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    group = lab.group(security_groups=[SecurityGroup("a")])
    cpi = bed.open()
    assert isinstance(cpi, AzureCpi)
    (cid,) = [one.cid for one in cpi.inspect_server_group(group).resources if one.kind == "security_group"]
    get = Client.get

    def shared(self: Client, type_: str, name: str, **query: str) -> Any:
        row = get(self, type_, name, **query)
        if row and type_ == "security group":
            row["properties"]["subnets"] = [{"id": SUBNET}]
        return row

    sent: list[str] = []
    bed.peer.front.watch = lambda method, path: sent.append(method)
    with monkeypatch.context() as patch:
        patch.setattr(Client, "get", shared)
        error = expect_error(CpiError, lambda: cpi.groups.azure.delete(cid))
    assert "default has it" in error.why
    assert "DELETE" not in sent


def test_a_label_that_is_left_of_a_security_group_is_found_and_goes_when_no_nic_bears_it(
    bed: AzureBed, lab: Lab
) -> None:
    """Others deleted the network security group; the application security group beside it stays."""
    group = lab.group(security_groups=[SecurityGroup("web")])
    vm = lab.vm(group=group)
    (security_group,) = [cid for kind, cid in bed.inventory() if kind == "security_group"]
    bed.operator.delete("security_group", security_group)
    assert ("label", security_group) in bed.inventory()

    def look() -> CloudObject:
        found = bed.open().survey("security_group", bed.director_uuid).objects
        (one,) = [each for each in found if each.cid == security_group]
        return one

    assert set(look().in_use_by or ()) == {group, f"{vm}-0"}
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(group)
    clean(bed.open(), bed.director_uuid, {lab.image()})
    assert ("label", security_group) not in bed.inventory()


def test_a_label_without_a_group_is_swept_and_an_operators_stays(bed: AzureBed, lab: Lab) -> None:
    group = lab.group(security_groups=[SecurityGroup("web")])
    lab.cpi.delete_vm(lab.vm(group=group))
    (label,) = [cid for kind, cid in bed.inventory() if kind == "security_group"]
    Witness(bed.peer).ask("PUT", path_of("label", "theirs"), {"location": LOCATION})
    shelf = bed.peer.front.shelf
    for kind, name in (("security_group", label), ("server_group", group), ("label", group)):
        found = shelf.get(path_of(kind, name))
        assert found
        shelf.drop(found)
    clean(bed.open(), bed.director_uuid, {lab.image()})
    assert {cid for kind, cid in bed.inventory() if kind == "label"} == {"theirs"}
    Witness(bed.peer).ask("DELETE", path_of("label", "theirs"))


@pytest.mark.parametrize("state", ["Failed", "Creating", "Updating", "Succeeded"])
def test_a_vm_that_runs_is_told_so_whatever_became_of_its_last_change(bed: AzureBed, lab: Lab, state: str) -> None:
    """What is not running is taken for dead, and made anew: a VM runs long before its agent has answered, and one to
    which a disk could not be attached is in state Failed."""
    vm, cpi = lab.vm(), bed.open()
    found = bed.peer.front.shelf.get(path_of("vm", vm))
    assert found
    found.state = state
    bed.peer.front.shelf.put(found)

    def states() -> set[str | None]:
        (listed,) = [one for one in cpi.survey("vm", bed.director_uuid).objects if one.cid == vm]
        mark = listed.mark
        assert mark
        read = cpi.find("vm", mark)
        assert read
        return {listed.state, read.state}

    assert states() == {"running"}
    bed.operator.deallocate(vm)
    assert states() == {"stopped"}
    found.state = "Succeeded"
    bed.peer.front.shelf.put(found)


def test_an_image_that_another_call_made_of_the_same_disk_is_answered(
    bed: AzureBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other call deletes the disk with its image, before this one sees the disk that it has put."""
    (path, properties), mark, finish = bed.image(), lab.mark(), Client._finish
    cpi, other = bed.open(), bed.open()
    assert isinstance(cpi, AzureCpi)

    def late(self: Client, what: str, *rest: Any) -> Any:
        if self is cpi.client and what.startswith("create disk"):
            self._wait(what, *rest)
            other.create_stemcell(path, properties, mark=mark)
        return finish(self, what, *rest)

    monkeypatch.setattr(Client, "_finish", late)
    found = cpi.create_stemcell(path, properties, mark=mark)
    assert found == mark.name()
    lab.undo(lab.cpi.delete_stemcell, found)


def test_versions_in_galleries_are_read_with_a_version_of_galleries() -> None:
    image = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/a/images/b/versions/1.0.0"
    assert client_module._version(image) == "2022-03-03"


def test_members_are_listed_without_the_view_that_azure_gives_of_one_vm(bed: AzureBed, lab: Lab) -> None:
    group = lab.group()
    lab.vm(group=group)
    cpi = bed.open()
    assert isinstance(cpi, AzureCpi)
    assert "instanceView" not in cpi.machines.list_all()[0]["properties"]
    (member,) = cpi.inspect_server_group(group).members
    assert member.domain is not None
