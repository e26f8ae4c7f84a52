"""What the kit cannot see: settings on the CD, templates per datastore, empty folders, pools, disks that moved."""

from __future__ import annotations

import http.client
import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from peers.agent_rules import AGENT, TWO_NICS_AND_A_VIP, broken_rules
from peers.cd import files_on_cd
from peers.vsphere_bed import VsphereBed
from tests.peers.vcenter import vcenter

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Expected, InvalidCall, Kind, Mark, OutcomeUnknown, Runtime, StemcellNotFound
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.cpi.drivers.vsphere.placement import Store, find_roomy


def fetched(bed: VsphereBed, path: str) -> tuple[int, bytes]:
    store, _, name = path.removeprefix("[").partition("] ")
    connection = http.client.HTTPConnection(urlsplit(bed.server.url).netloc)
    connection.request("GET", f"/folder/{quote(name)}?dcPath=DC0&dsName={store}")
    answer = connection.getresponse()
    found = (answer.status, answer.read())
    connection.close()
    return found


def vm_files(bed: VsphereBed, cid: str) -> str:
    path: str = bed.operator.get(bed.operator.machine(cid), "config.files.vmPathName")
    return path.rpartition("/")[0]


def test_the_agent_finds_its_settings_on_a_disc_that_goes_with_the_vm(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"agent": {"mbus": "nats://127.0.0.1", "ignored": "x"}}
    cpi = bed.open()
    arguments = lab.vm_arguments()
    created = cpi.create_vm(**arguments)
    path = f"{vm_files(bed, created.cid)}/coterie-env.iso"
    settings = json.loads(files_on_cd(fetched(bed, path)[1])["ENV.;1"])
    assert settings["agent_id"] == arguments["agent_id"]
    assert settings["networks"]["default"]["mac"] == created.networks["default"]["mac"]
    assert settings["disks"] == {"system": "0", "ephemeral": "1", "persistent": {}}
    assert (settings["mbus"], "ignored" in settings) == ("nats://127.0.0.1", False)
    cpi.delete_vm(created.cid)
    assert fetched(bed, path)[0] == 404


def test_the_settings_are_enough_for_an_agent(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"agent": AGENT}
    only = next(iter(bed.networks("z1", None).values()))["cloud_properties"]
    requested = {
        "front": {**TWO_NICS_AND_A_VIP["front"], "ip": "10.0.0.5", "netmask": "255.0.0.0", "cloud_properties": only},
        "back": {**TWO_NICS_AND_A_VIP["back"], "cloud_properties": only},
        "public": {**TWO_NICS_AND_A_VIP["public"], "ip": "10.0.0.6"},
    }
    cpi = bed.open()
    created = cpi.create_vm(**lab.vm_arguments(networks=requested))
    lab.undo(cpi.delete_vm, created.cid)
    settings = json.loads(files_on_cd(fetched(bed, f"{vm_files(bed, created.cid)}/coterie-env.iso")[1])["ENV.;1"])
    macs = {created.networks[name]["mac"] for name in ("front", "back")}
    assert broken_rules(settings, requested, macs) == []


def test_where_there_is_no_drs_the_driver_chooses_the_host(bed: VsphereBed, lab: Lab) -> None:
    bed.operator.switch_drs("z1", False)
    try:
        cpi = bed.open()
        cid = cpi.create_vm(**lab.vm_arguments()).cid
        assert bed.operator.get(bed.operator.machine(cid), "runtime.host") is not None
        cpi.delete_vm(cid)
    finally:
        bed.operator.switch_drs("z1", True)


def test_the_agent_may_read_guest_information(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"agent_settings": "guestinfo"}
    cpi = bed.open()
    cid = cpi.create_vm(**lab.vm_arguments()).cid
    lab.undo(cpi.delete_vm, cid)
    options = bed.operator.get(bed.operator.machine(cid), "config.extraConfig")
    assert "guestinfo.userdata" in {one.key for one in options}
    assert fetched(bed, f"{vm_files(bed, cid)}/coterie-env.iso")[0] == 404


def test_a_vm_has_the_size_that_was_requested_and_only_our_nics(bed: VsphereBed, lab: Lab) -> None:
    machine = bed.operator.machine(lab.vm(cloud_properties={"cpu": 3, "ram": 768, "disk": 2048, "zone": "z1"}))
    hardware = bed.operator.get(machine, "config.hardware")
    nics = [one for one in hardware.device if hasattr(one, "macAddress")]
    disks = [one for one in hardware.device if hasattr(one, "capacityInKB")]
    assert (hardware.numCPU, hardware.memoryMB, len(nics)) == (3, 768, 1)
    assert [disk.unitNumber for disk in disks] == [0, 1]


def test_a_template_is_copied_to_a_second_datastore_once_and_goes_whole(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"datastores": ["LocalDS_*"]}
    cpi = bed.open()
    path, properties = bed.image()
    before = bed.inventory()
    stemcell = cpi.create_stemcell(path, properties, mark=lab.mark())
    orders = [{**bed.vm_properties("z1"), "datastores": [f"LocalDS_{number % 2}"]} for number in range(4)]
    cids = [cpi.create_vm(**lab.vm_arguments(stemcell_cid=stemcell, cloud_properties=order)).cid for order in orders]
    assert {vm_files(bed, cid).partition("]")[0] for cid in cids} == {"[LocalDS_0", "[LocalDS_1"}
    templates = {one for one in bed.inventory() - before if one[0] == "image"}
    assert len(templates) == 2
    assert len([one for one in cpi.survey("image", bed.director_uuid).objects if one.cid == stemcell]) == 1
    for cid in cids:
        cpi.delete_vm(cid)
    cpi.delete_stemcell(stemcell)
    assert bed.inventory() == before


def test_replicas_whose_template_is_gone_are_listed_and_deleted(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"datastores": ["LocalDS_*"]}
    cpi, mark = bed.open(), lab.mark()
    path, properties = bed.image()
    before = bed.inventory()
    image = cpi.create_stemcell(path, properties, mark=mark)
    for number in range(2):  # one of them needs a replica
        order = {**bed.vm_properties("z1"), "datastores": [f"LocalDS_{number}"]}
        cpi.delete_vm(cpi.create_vm(**lab.vm_arguments(stemcell_cid=image, cloud_properties=order)).cid)
    bed.operator.delete("vm", image)
    assert cpi.find("image", mark) is None
    (left,) = [one for one in cpi.survey("image", bed.director_uuid).objects if one.mark == mark]
    cpi.delete_object("image", left.cid, Expected(mark=mark))
    assert bed.inventory() == before


@pytest.mark.parametrize("light", [False, True], ids=["an import", "a clone"])
@pytest.mark.parametrize("died", ["CreateSnapshot_Task", "MarkAsTemplate"])
def test_a_template_that_a_process_has_left_unsealed_is_finished_or_made_anew(
    bed: VsphereBed, lab: Lab, light: bool, died: str
) -> None:
    bed.more = {"settle_s": 0.3}
    source = bed.operator.get(bed.operator.machine(lab.image()), "name")
    path, properties = bed.image()
    if light:
        path, properties = "", {"template": f"coterie/{bed.director_uuid}/stemcells/{source}"}
    before, mark = bed.inventory(), lab.mark()
    bed.server.bend(died, "drop_before")
    expect_error(OutcomeUnknown, lambda: bed.open().create_stemcell(path, properties, mark=mark))
    assert bed.open().find("image", mark) is None
    image = bed.open().create_stemcell(path, properties, mark=mark)
    machine = bed.operator.machine(image)
    assert bed.operator.get(machine, "config.template")
    assert bed.operator.get(machine, "snapshot.currentSnapshot")
    bed.open().delete_stemcell(image)
    assert bed.inventory() == before


def test_a_template_that_was_left_unsealed_is_listed_and_deleted(bed: VsphereBed, lab: Lab) -> None:
    before, mark = bed.inventory(), lab.mark()
    path, properties = bed.image()
    bed.server.bend("MarkAsTemplate", "fault", fault="SystemError")
    expect_error(CpiError, lambda: lab.cpi.create_stemcell(path, properties, mark=mark))
    assert bed.inventory() == before  # what certainly failed leaves nothing
    bed.server.bend("MarkAsTemplate", "drop_before")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_stemcell(path, properties, mark=mark))
    (left,) = [one for one in lab.cpi.survey("image", bed.director_uuid).objects if one.mark == mark]
    assert left.state == "building"
    lab.cpi.delete_object("image", left.cid, Expected(mark=mark))
    assert bed.inventory() == before


def test_a_template_that_vms_of_others_grow_from_is_in_use(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"datastores": ["LocalDS_*"]}
    cpi, mark = bed.open(), lab.mark()
    path, properties = bed.image()
    image = cpi.create_stemcell(path, properties, mark=mark)
    for number in range(2):  # one of them needs a replica
        order = {**bed.vm_properties("z1"), "datastores": [f"LocalDS_{number}"]}
        cpi.delete_vm(cpi.create_vm(**lab.vm_arguments(stemcell_cid=image, cloud_properties=order)).cid)
    apart = bed.operator.create_vm("apart", "z1")
    disks = [bed.operator.disk_files(one) for one in bed.operator.templates(mark.name())]
    assert len(disks) == 2
    theirs = [bed.operator.boot_linked("theirs", "z1", parent) for (parent,) in disks]
    listed = [one for one in cpi.survey("image", bed.director_uuid).objects if one.cid == image]
    for found in (cpi.find("image", mark), *listed):
        assert found is not None and found.in_use_by == tuple(sorted(theirs))
    for cid in (*theirs, apart):
        bed.operator.delete("vm", cid)
    found = cpi.find("image", mark)
    assert found is not None and found.in_use_by == ()
    cpi.delete_stemcell(image)


def test_a_light_stemcell_is_a_clone_of_an_operators_template(bed: VsphereBed, lab: Lab) -> None:
    full = bed.operator.machine(lab.image())
    folder, name = f"coterie/{bed.director_uuid}/stemcells", bed.operator.get(full, "name")
    light = lab.cpi.create_stemcell("", {"template": f"{folder}/{name}"}, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, light)
    lab.vm(stemcell_cid=light)
    expect_error(StemcellNotFound, lambda: lab.cpi.create_stemcell("", {"template": "nobody/has"}, mark=lab.mark()))


def test_our_folders_go_when_they_are_empty(bed: VsphereBed, lab: Lab) -> None:
    before = {one for one in bed.server.inventory() if not one[1].endswith(" coterie")}
    other = str(uuid.uuid4())
    cpi = bed.open(other)
    path, properties = bed.image()
    stemcell = cpi.create_stemcell(path, properties, mark=Mark(other, lab.ids.intent()))
    group = cpi.create_server_group(lab.metadata(), mark=Mark(other, lab.ids.intent()))
    vm = cpi.create_vm(**lab.vm_arguments(stemcell_cid=stemcell, group=group, mark=Mark(other, lab.ids.intent()))).cid
    assert any(other in one[1] for one in bed.server.inventory())
    cpi.delete_vm(vm)
    cpi.delete_server_group(group)
    cpi.delete_stemcell(stemcell)
    assert {one for one in bed.server.inventory() if not one[1].endswith(" coterie")} == before


def test_a_disk_that_was_moved_to_another_datastore_is_still_found(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.disk()
    stem, _, store = cid.partition("@")
    folder = f"coterie/{bed.director_uuid}/disks"
    assert store == "LocalDS_0"
    datacenter, content = bed.operator.find("DC0"), bed.operator.content
    content.fileManager.MakeDirectory(f"[LocalDS_1] {folder}", datacenter, True)
    source, target = (f"[{one}] {folder}/{stem}.vmdk" for one in ("LocalDS_0", "LocalDS_1"))
    move = content.virtualDiskManager.MoveVirtualDisk_Task
    bed.operator.run(move(source, datacenter, target, datacenter))
    assert lab.cpi.has_disk(cid)
    lab.cpi.attach_disk(lab.vm(), cid)


def test_a_disk_is_copied_while_no_vm_writes_to_it(bed: VsphereBed, lab: Lab) -> None:
    disk = lab.disk()
    vm = lab.vm()
    lab.cpi.attach_disk(vm, disk)
    error = expect_error(CpiError, lambda: lab.cpi.snapshot_disk(disk, {}, mark=lab.mark()))
    assert vm in error.what
    bed.operator.run(bed.operator.machine(vm).PowerOffVM_Task())
    lab.undo(lab.cpi.delete_snapshot, lab.cpi.snapshot_disk(disk, {}, mark=lab.mark()))


def test_a_survey_costs_the_same_calls_for_one_vm_and_for_many(bed: VsphereBed, lab: Lab) -> None:
    costs = []
    for more in (1, 4):
        for _ in range(more):
            lab.vm()
        bed.server.forget_calls()
        page = lab.cpi.survey("vm", bed.director_uuid)
        costs.append(len(bed.server.calls()))
    assert len(page.objects) == 5
    assert costs[0] == costs[1]
    assert all(one.state == "running" and one.host and one.az == "z1" for one in page.objects)


def test_a_zone_may_be_a_resource_pool(tmp_path: Path) -> None:
    with vcenter(pool=1) as server:
        bed = VsphereBed(tmp_path, server)
        bed.more = {"zones": {"z1": {"cluster": "DC0_C0", "resource_pool": "DC0_C0_RP1"}}}
        lab = Lab(bed)
        machine = bed.operator.machine(lab.vm())
        assert bed.operator.get(bed.operator.get(machine, "resourcePool"), "name") == "DC0_C0_RP1"
        bed.more = {"zones": {"z1": {"cluster": "DC0_C0", "resource_pool": "nobody-has-this"}}}
        expect_error(CpiError, lambda: bed.open().create_vm(**lab.vm_arguments()))
        lab.close()
        bed.close()


def test_a_zone_of_several_clusters_is_filled_by_free_memory_and_groups_follow(bed: VsphereBed, lab: Lab) -> None:
    bed.more = {"zones": {"z1": {"clusters": ["DC0_C0", "DC0_C1"]}}}
    cpi = bed.open()
    cid = lab.group("anti-affinity")
    vms = [cpi.create_vm(**lab.vm_arguments(group=cid)).cid for _ in range(5)]
    view = cpi.inspect_server_group(cid)
    assert {one.cid.partition("/")[0] for one in view.resources if one.kind == "server_group"} == {"DC0_C0", "DC0_C1"}
    assert {one.vm_cid for one in view.members} == set(vms)
    hosts = next(item for item in cpi.check() if item.what == "hosts").facts or {}
    assert [host["az"] for host in hosts["hosts"]] == ["z1"] * 6
    disk = cpi.create_disk(1024, {"zone": "z1"}, mark=lab.mark())
    lab.undo(cpi.delete_disk, disk)
    for vm in vms:
        cpi.delete_vm(vm)


def test_a_datastore_is_chosen_by_free_space_and_again_for_a_repeat() -> None:
    stores = [Store(None, name, free, None, shared=True) for name, free in (("small", 1_000), ("large", 100_000))]
    picked = [find_roomy(stores, 10, f"seed-{number}") for number in range(300)]
    assert picked == [find_roomy(stores, 10, f"seed-{number}") for number in range(300)]
    assert 0 < picked.count(stores[0]) < 30
    assert find_roomy(stores, 2_000, "any") == stores[1]
    assert find_roomy(stores, 10**9, "any") is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"url": "http://vcenter.example.org"}, "properties.url"),
        ({"password": ""}, "properties.password"),
        ({"no_such_property": 1}, "no_such_property"),
        ({"zones": {"z1": {}}}, "properties.zones"),
        ({"agent_settings": "paper"}, "properties.agent_settings"),
        ({"user": None}, "properties.user"),
    ],
)
def test_a_wrong_property_is_named(change: dict[str, Any], word: str) -> None:
    good = {"url": "https://vcenter.example.org", "user": "u", "password": "very-secret", "datacenter": "DC0"}
    runtime = Runtime("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", None)  # type: ignore[arg-type] # nothing is submitted
    VsphereCpi("lab", good, runtime)
    error = expect_error(InvalidCall, lambda: VsphereCpi("lab", {**good, **change}, runtime))
    assert word in error.what
    assert "very-secret" not in f"{error} {error.remedy}"


@pytest.mark.parametrize("kind", ["vm", "image", "disk", "snapshot", "server_group"])
def test_a_survey_that_looks_in_the_wrong_folder_is_not_complete(bed: VsphereBed, lab: Lab, kind: Kind) -> None:
    lab.vm()
    bed.more = {"folder": "elsewhere"}
    moved = bed.open()
    page = moved.survey(kind, bed.director_uuid)
    assert (page.objects, page.complete) == ((), False)
    assert moved.survey(kind, str(uuid.uuid4())).complete


def test_a_survey_after_the_last_vm_is_complete(bed: VsphereBed, lab: Lab) -> None:
    """Its folder is gone, but the image is where it should be."""
    lab.cpi.delete_vm(lab.vm())
    page = lab.cpi.survey("vm", bed.director_uuid)
    assert (page.objects, page.complete) == ((), True)
