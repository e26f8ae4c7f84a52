"""Virtual machines on a cluster that runs none: what can be made for them is, and the rest is refused."""

from __future__ import annotations

import pytest
from peers.incus_bed import POOL, IncusBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError

MACHINE = "virtual-machine"


def test_members_without_qemu_refuse_them_and_the_plan_says_so(bed: IncusBed, lab: Lab) -> None:
    if "qemu" in str(bed.operator.call("GET", "/1.0")["environment"]["driver"]):
        pytest.skip("this cluster runs virtual machines")
    bed.more = {"default_type": MACHINE}
    items = {item.what: item for item in bed.open().check()}
    assert not items["virtual machines"].ok
    bed.more = {}
    arguments = lab.vm_arguments()
    before = bed.inventory()
    arguments["cloud_properties"] |= {"type": MACHINE}
    with pytest.raises(CpiError, match="the VM is to be a virtual-machine"):
        bed.open().create_vm(**arguments)
    assert bed.inventory() == before


def test_a_block_volume_for_one_is_made_grows_and_is_refused_to_a_container(bed: IncusBed, lab: Lab) -> None:
    disk = lab.cpi.create_disk(64, {"type": MACHINE}, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    row = bed.operator.call("GET", f"/1.0/storage-pools/{POOL}/volumes/custom/{disk.partition(':')[2]}")
    assert (row["content_type"], row["config"]["size"]) == ("block", "64MiB")
    lab.cpi.resize_disk(disk, 128)
    with pytest.raises(CpiError, match="takes filesystem only"):
        lab.cpi.attach_disk(lab.vm(), disk)
    with pytest.raises(CpiError, match="takes filesystem only"):
        lab.vm(disk_cids=[disk])
