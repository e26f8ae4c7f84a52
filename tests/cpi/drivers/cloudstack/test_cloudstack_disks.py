"""Disks, sizes and networks in the cloud's own words: offerings, GiB rounded up, hints, the smallest that fits."""

from __future__ import annotations

from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, InvalidCall, NotSupported, OutcomeUnknown
from coterie.cpi.drivers.cloudstack.client import Client, Refusal
from coterie.sandbox import faults
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.twist import Tx


def volume(bed: CloudstackBed, disk: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.client().listVolumes(id=disk)["volume"][0]
    return found


def disk(lab: Lab, size_mb: int, **properties: Any) -> str:
    cid = lab.cpi.create_disk(size_mb, properties, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, cid)
    return cid


@pytest.mark.parametrize(("size_mb", "gib"), [(1, 1), (1024, 1), (1025, 2), (10241, 11)])
def test_sizes_are_rounded_up(bed: CloudstackBed, lab: Lab, size_mb: int, gib: int) -> None:
    assert volume(bed, disk(lab, size_mb))["size"] == gib * 2**30


def test_an_offering_with_a_size_is_taken_if_it_is_large_enough(bed: CloudstackBed, lab: Lab) -> None:
    cid = disk(lab, 5000, disk_offering="10g")
    assert volume(bed, cid)["size"] == 10 * 2**30
    with pytest.raises(InvalidCall, match="10 GB, 11 are needed"):
        lab.cpi.create_disk(10241, {"disk_offering": "10g"}, mark=lab.mark())
    with pytest.raises(NotSupported, match="fixes the size"):
        lab.cpi.resize_disk(cid, 20000)
    lab.cpi.update_disk(cid, 20000, {"disk_offering": "custom"})
    assert volume(bed, cid)["size"] == 20 * 2**30


def test_a_disk_is_made_where_its_vm_is_unless_its_zone_is_named(bed: CloudstackBed, lab: Lab) -> None:
    vm = lab.vm("z2")
    here = lab.cpi.create_disk(1024, {}, vm, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, here)
    assert volume(bed, here)["zonename"] == "z2"
    assert volume(bed, disk(lab, 1024, zone="z3"))["zonename"] == "z3"


def test_a_hint_names_the_device_and_the_serial_number(bed: CloudstackBed, lab: Lab) -> None:
    vm = lab.vm()
    hints = []
    for cid in [disk(lab, 1024) for _ in range(3)]:
        hints.append((cid, lab.cpi.attach_disk(vm, cid)))
        assert lab.cpi.attach_disk(vm, cid) == hints[-1][1]
    assert [hint["path"] for _, hint in hints] == ["/dev/vdb", "/dev/vdc", "/dev/vde"]  # 3 is the CD-ROM
    assert all(cid.replace("-", "").startswith(hint["id"]) and len(hint["id"]) == 20 for cid, hint in hints)
    for cid, _ in hints:
        lab.cpi.detach_disk(vm, cid)


def test_a_request_that_is_repeated_on_its_way_makes_one_disk(bed: CloudstackBed, lab: Lab) -> None:
    faults.add(bed.datacenter.store, "createVolume", "twice", times=1)
    cid = disk(lab, 1024)
    assert [one["id"] for one in bed.client().listVolumes(type="DATADISK")["volume"]] == [cid]


def test_a_disk_whose_job_fails_leaves_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Client, command: str, *_: Any) -> Any:
        raise Refusal(command, 530, "no pool")

    with monkeypatch.context() as patch, pytest.raises(CpiError, match="no pool"):
        patch.setattr(Client, "wait", failing)
        lab.cpi.create_disk(1024, {}, mark=lab.mark())


def test_a_disk_is_waited_for_as_long_as_the_settings_say(bed: CloudstackBed, lab: Lab) -> None:
    bed.more = {"state_timeout_volume": 0.05}
    mark = lab.mark()
    faults.add(bed.datacenter.store, "createVolume", "slow-build", times=1, ms=1500)
    with pytest.raises(OutcomeUnknown, match="createVolume did not end"):
        bed.open().create_disk(1024, {}, mark=mark)
    lab.undo(lab.cpi.delete_disk, lab.cpi.create_disk(1024, {}, mark=mark))


def test_the_smallest_offering_that_fits_is_chosen(lab: Lab) -> None:
    def chosen(cpu: int, ram: int) -> str:
        need = {"cpu": cpu, "ram": ram, "ephemeral_disk_size": 3000}
        return str(lab.cpi.calculate_vm_cloud_properties(need)["compute_offering"])

    assert [chosen(1, 512), chosen(1, 513), chosen(2, 600), chosen(3, 600)] == ["tiny", "small", "medium", "large"]
    with pytest.raises(CpiError, match="no compute offering") as caught:
        chosen(2, 999_999)
    assert "xlarge: 8 cpu, 16384 MB" in caught.value.why


def test_what_is_calculated_makes_a_vm(bed: CloudstackBed, lab: Lab) -> None:
    found = lab.cpi.calculate_vm_cloud_properties({"cpu": 1, "ram": 512, "ephemeral_disk_size": 3000})
    vm = lab.vm(cloud_properties={**found, "zone": lab.az})
    (ephemeral,) = bed.client().listVolumes(virtualmachineid=vm, type="DATADISK")["volume"]
    assert ephemeral["size"] == 3 * 2**30


def test_a_network_is_isolated_and_named_by_its_mark(bed: CloudstackBed, lab: Lab) -> None:
    mark = lab.mark()
    made = lab.cpi.create_network({"type": "manual", "range": "127.99.0.0/24", "cloud_properties": {}}, mark=mark)
    lab.undo(lab.cpi.delete_network, made.cid)
    (found,) = bed.client().listNetworks(id=made.cid)["network"]
    assert (found["name"], found["type"], found["cidr"]) == (mark.name(), "Isolated", "127.99.0.0/24")
    assert made.addresses == {"range": "127.99.0.0/24", "gateway": "127.99.0.1", "reserved": []}
    lab.cpi.delete_network(made.cid)
    assert bed.client().listNetworks(id=made.cid) == {}


def test_an_ambiguous_network_offering_is_not_guessed(bed: CloudstackBed, lab: Lab) -> None:
    with bed.datacenter.store.writing() as db:
        doc = {"guest": "Isolated", "userdata": "VirtualRouter"}
        shelf.put(Tx(db, "admin", 0.0, bed.datacenter.ids), "networkoffering", "another", doc)
    with pytest.raises(InvalidCall, match="2 network offerings") as caught:
        lab.cpi.create_network({"type": "manual", "cloud_properties": {}}, mark=lab.mark())
    assert "network_offering" in caught.value.remedy
    named = {"type": "manual", "cloud_properties": {"network_offering": "another"}}
    lab.undo(lab.cpi.delete_network, lab.cpi.create_network(named, mark=lab.mark()).cid)
