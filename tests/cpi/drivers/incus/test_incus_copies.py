"""Volumes that people copied or moved to another member under the same name, with all that is written on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from peers.incus_bed import IncusBed
from peers.incus_operator import ROOT, VOLUMES
from tests.peers.incus.cluster import MEMBERS, POOL

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Changed


@pytest.fixture
def disk(bed: IncusBed, lab: Lab) -> Iterator[str]:
    """One that may hold data."""
    vm = lab.vm()
    made = lab.cpi.create_disk(64, {}, vm, mark=lab.mark())
    lab.cpi.attach_disk(vm, made)
    lab.cpi.detach_disk(vm, made)
    lab.cpi.delete_vm(vm)
    yield made
    for where in homes(bed, made):
        bed.operator.call("DELETE", path(made, where))


def path(disk: str, member: str) -> str:
    return f"{VOLUMES}/{disk.partition(':')[2]}?target={member}"


def homes(bed: IncusBed, disk: str) -> list[str]:
    return sorted(row["location"] for row in bed.operator.rows(VOLUMES) if row["name"] == disk.partition(":")[2])


def copy(bed: IncusBed, disk: str) -> str:
    """As `incus storage volume copy NAME NAME --destination-target MEMBER` leaves it; the member."""
    (home,) = homes(bed, disk)
    other = next(one for one in MEMBERS if one != home)
    config = bed.operator.call("GET", path(disk, home))["config"]
    written = {key: value for key, value in config.items() if not key.startswith("volatile.")}
    bed.operator.call("POST", f"{VOLUMES}?target={other}", {"name": disk.partition(":")[2], "config": written})
    return other


def test_a_copy_outlives_the_deletion_of_the_disk(bed: IncusBed, lab: Lab, disk: str) -> None:
    other = copy(bed, disk)
    snapshot = lab.cpi.snapshot_disk(disk, {}, mark=lab.mark())
    lab.cpi.delete_snapshot(snapshot)
    listed = lab.cpi.survey("disk", lab.bed.director_uuid).objects
    assert [one.host for one in listed if one.cid == disk] != [other]
    lab.cpi.delete_disk(disk)
    assert homes(bed, disk) == [other]
    with pytest.raises(Changed, match="was made on"):
        lab.cpi.delete_disk(disk)
    assert homes(bed, disk) == [other]


def test_a_disk_comes_back_to_a_vm_while_a_person_uses_a_copy(bed: IncusBed, lab: Lab, disk: str) -> None:
    (home,), other = homes(bed, disk), copy(bed, disk)
    device = {"type": "disk", "pool": POOL, "source": disk.partition(":")[2], "path": "/mnt"}
    theirs = bed.operator.create_on(other, "theirs", devices={**ROOT, "backup": device})
    try:
        vm = lab.vm(disk_cids=[disk])
        lab.cpi.attach_disk(vm, disk)
        assert bed.operator.locations(vm) == [home]
        lab.cpi.detach_disk(vm, disk)
    finally:
        bed.operator.delete("vm", theirs)


def test_a_disk_that_was_moved_is_ours_again_once_a_vm_has_it(bed: IncusBed, lab: Lab, disk: str) -> None:
    (home,), other = homes(bed, disk), copy(bed, disk)
    bed.operator.call("DELETE", path(disk, home))
    assert lab.cpi.has_disk(disk)
    with pytest.raises(Changed):
        lab.cpi.delete_disk(disk)
    vm = lab.vm(disk_cids=[disk])
    lab.cpi.attach_disk(vm, disk)
    assert bed.operator.locations(vm) == [other]
    lab.cpi.detach_disk(vm, disk)
    lab.cpi.delete_disk(disk)
    assert homes(bed, disk) == []
