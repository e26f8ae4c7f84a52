"""What is for virtual machines and what is for containers is not mixed."""

from __future__ import annotations

import pytest
from peers.incus_bed import POOL, IncusBed, require_machines

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError

MACHINE = "virtual-machine"


def test_an_image_for_containers_is_refused_to_one(bed: IncusBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    before = bed.inventory()
    arguments["cloud_properties"] |= {"type": MACHINE}
    with pytest.raises(CpiError, match="the VM is to be a virtual-machine"):
        bed.open().create_vm(**arguments)
    assert bed.inventory() == before


def test_a_block_volume_for_one_is_made_grows_and_is_refused_to_a_container(bed: IncusBed, lab: Lab) -> None:
    require_machines()
    disk = lab.cpi.create_disk(64, {"type": MACHINE}, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    row = bed.operator.call("GET", f"/1.0/storage-pools/{POOL}/volumes/custom/{disk.partition(':')[2]}")
    assert (row["content_type"], row["config"]["size"]) == ("block", "64MiB")
    lab.cpi.resize_disk(disk, 128)
    with pytest.raises(CpiError, match="takes filesystem only"):
        lab.cpi.attach_disk(lab.vm(), disk)
    with pytest.raises(CpiError, match="takes filesystem only"):
        lab.vm(disk_cids=[disk])
