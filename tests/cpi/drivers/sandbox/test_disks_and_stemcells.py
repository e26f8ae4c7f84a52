"""Stemcells, disks, snapshots and networks through the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cpi.contract import (
    CpiError,
    DiskNotFound,
    InvalidCall,
    NotSupported,
    VMNotFound,
)
from coterie.sandbox import disks, images

from .lab import Lab


def test_an_image_file_is_measured(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"abc")
    mark = lab.mark()
    cid = lab.cpi.create_stemcell(str(file), {"name": "debian"}, {"tags": {"os": "debian"}}, mark=mark)
    image = images.get_image(lab.operator, cid)
    assert image.size_bytes == 3
    assert image.digest.startswith("ba7816bf")
    assert image.tags["os"] == "debian"
    assert lab.cpi.create_stemcell(str(file), {"name": "debian"}, mark=mark) == cid
    lab.cpi.delete_stemcell(cid)
    lab.cpi.delete_stemcell(cid)


def test_a_stemcell_needs_a_file_or_properties(lab: Lab, tmp_path: Path) -> None:
    for path, properties in ((str(tmp_path / "none"), {"name": "x"}), ("", {}), (str(tmp_path), {})):
        with pytest.raises(InvalidCall, match="image_path"):
            lab.cpi.create_stemcell(path, properties, mark=lab.mark())


def test_a_disk_is_attached_with_a_hint(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.cpi.create_disk(100, {"type": "fast"}, mark=lab.mark())
    hint = lab.cpi.attach_disk(vm, disk)
    assert hint == {"path": "/dev/sdc", "volume_id": disk}
    assert lab.cpi.attach_disk(vm, disk) == hint
    assert lab.cpi.get_disks(vm) == [disk]
    lab.cpi.detach_disk(vm, disk)
    lab.cpi.detach_disk(vm, disk)
    assert lab.cpi.get_disks(vm) == []
    lab.cpi.delete_disk(disk)
    lab.cpi.delete_disk(disk)
    assert lab.cpi.has_disk(disk) is False


def test_attaching_what_is_not_there_is_told(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.cpi.create_disk(100, {}, mark=lab.mark())
    with pytest.raises(VMNotFound):
        lab.cpi.attach_disk("none", disk)
    with pytest.raises(DiskNotFound):
        lab.cpi.attach_disk(vm, "none")


def test_disks_grow_change_and_never_shrink(lab: Lab) -> None:
    disk = lab.cpi.create_disk(100, {}, mark=lab.mark())
    lab.cpi.resize_disk(disk, 200)
    assert lab.cpi.update_disk(disk, 300, {"type": "fast"}) is None
    found = disks.get_disk(lab.operator, disk)
    assert (found.size_mb, found.type) == (300, "fast")
    for shrink in (lambda: lab.cpi.resize_disk(disk, 299), lambda: lab.cpi.update_disk(disk, 299, {})):
        with pytest.raises(NotSupported):
            shrink()
    lab.cpi.attach_disk(lab.vm(), disk)
    with pytest.raises(CpiError, match="attached"):
        lab.cpi.resize_disk(disk, 400)


def test_what_is_switched_off_is_not_supported(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"resize_disk": False, "snapshots": False})
    disk = lab.cpi.create_disk(100, {}, mark=lab.mark())
    for refused in (
        lambda: lab.cpi.resize_disk(disk, 200),
        lambda: lab.cpi.update_disk(disk, 200, {}),
        lambda: lab.cpi.snapshot_disk(disk, {}, mark=lab.mark()),
        lambda: lab.cpi.delete_snapshot("x"),
        lambda: lab.cpi.configure_networks("x", {}),
    ):
        with pytest.raises(NotSupported):
            refused()


def test_snapshots_are_marked_and_described(lab: Lab) -> None:
    mark = lab.mark()
    disk = lab.cpi.create_disk(100, {}, mark=lab.mark())
    cid = lab.cpi.snapshot_disk(disk, {"index": 3}, mark=mark)
    assert lab.cpi.snapshot_disk(disk, {"index": 3}, mark=mark) == cid
    found = lab.cpi.find("snapshot", mark)
    assert found is not None
    assert found.cid == cid
    assert found.tags is not None
    assert found.tags["index"] == "3"
    lab.cpi.delete_snapshot(cid)
    lab.cpi.delete_snapshot(cid)
    with pytest.raises(DiskNotFound):
        lab.cpi.snapshot_disk("none", {}, mark=lab.mark())


def test_unknown_disk_properties_are_named(lab: Lab) -> None:
    for wrong in ({"iops": 5}, {"type": 5}):
        with pytest.raises(InvalidCall, match="cloud_properties"):
            lab.cpi.create_disk(100, wrong, mark=lab.mark())
    with pytest.raises(InvalidCall):
        lab.cpi.create_disk(0, {}, mark=lab.mark())


def test_a_network_is_made_once_per_mark(lab: Lab) -> None:
    mark = lab.mark()
    made = lab.cpi.create_network({"type": "manual", "netmask_bits": 26}, mark=mark)
    assert lab.cpi.create_network({"type": "manual", "netmask_bits": 26}, mark=mark) == made
    assert made.addresses["range"].endswith("/26")
    assert made.cloud_properties == {"name": made.cid}
    lab.cpi.delete_network(made.cid)
    lab.cpi.delete_network(made.cid)
    for wrong in ({"netmask_bits": "26"}, {"range": "ten"}):
        with pytest.raises(InvalidCall):
            lab.cpi.create_network(wrong, mark=lab.mark())
