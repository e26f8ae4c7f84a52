"""A life of everything that moto has: a peer that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.moto_bed import ZONES, MotoBed, served

from coterie.cpi.contract import Mark, VMNotFound
from coterie.ids import Ids

DIRECTOR, ZONE = MotoBed.director_uuid, ZONES[0]


@pytest.fixture
def bed() -> Iterator[MotoBed]:
    with served() as server:
        yield MotoBed(server)


def new_mark() -> Mark:
    return Mark(DIRECTOR, Ids().intent())


def test_a_life_of_everything(bed: MotoBed, tmp_path: Path) -> None:
    cpi = bed.open()
    assumed = bed.open(role_arn="arn:aws:iam::210987654321:role/coterie", external_id="coterie")
    assert (cpi.identity(), assumed.identity()) == tuple(
        f"account {account} in region us-east-1" for account in ("123456789012", "210987654321")
    )
    image = tmp_path / "image"
    image.write_bytes(bytes(600_000) + b"end")
    subnets = cpi.client.ask("list subnets", "describe_subnets")["Subnets"]
    subnet = next(row["SubnetId"] for row in subnets if row["AvailabilityZone"] == ZONE)
    stemcell, vm_mark, disk_mark = cpi.create_stemcell(str(image), {}, mark=new_mark()), new_mark(), new_mark()
    properties, network = {"instance_type": "t3.small"}, {"type": "dynamic", "cloud_properties": {"subnet": subnet}}
    vm = cpi.create_vm("agent", stemcell, properties, {"default": network}, [], {}, mark=vm_mark)
    assert vm.networks["default"]["ip"]
    found = cpi.find("vm", vm_mark)
    assert found is not None and (found.cid, found.state, found.az) == (vm.cid, "running", ZONE)
    cpi.set_vm_metadata(vm.cid, {"name": "broker/0"})
    assert cpi.vm_owner(vm.cid) == DIRECTOR
    disk = cpi.create_disk(1024, {}, vm.cid, mark=disk_mark)
    hint = cpi.attach_disk(vm.cid, disk)
    assert cpi.attach_disk(vm.cid, disk) == hint
    assert cpi.get_disks(vm.cid) == [disk]
    snapshot = cpi.snapshot_disk(disk, {"agent_id": "a"}, mark=new_mark())
    assert snapshot in [one.cid for one in cpi.survey("snapshot", DIRECTOR).objects]
    cpi.detach_disk(vm.cid, disk)
    cpi.resize_disk(disk, 3000)
    assert [one.cid for one in cpi.survey("disk", DIRECTOR).objects] == [disk]
    cpi.delete_vm(vm.cid)
    assert cpi.has_vm(vm.cid) is False
    with pytest.raises(VMNotFound):
        cpi.reboot_vm(vm.cid)
    cpi.delete_snapshot(snapshot)
    cpi.delete_disk(disk)
    cpi.delete_stemcell(stemcell)
    assert cpi.has_disk(disk) is False
