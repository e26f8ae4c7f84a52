"""A stemcell's image as an OVF package."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.kit.ovf_package import open_package


def pack(path: Path, **members: bytes) -> str:
    with tarfile.open(path, mode="w") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name.replace('_', '.')}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return str(path)


def test_the_description_and_its_disks_are_found(tmp_path: Path) -> None:
    with open_package(pack(tmp_path / "image", image_ovf=b"<xml/>", disk_vmdk=b"KDMV" * 5)) as package:
        assert package.description() == "<xml/>"
        file, size = package.open("disk.vmdk")
        assert (file.read(), size) == (b"KDMV" * 5, 20)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"disk_vmdk": b"KDMV"}, "no .ovf"),
        ({"image_ovf": b"x" * (4 * 1024 * 1024 + 1)}, "larger than"),
        ({"image_ovf": b"\xff\xfe\xfd"}, "decode"),
        ({"image_ovf": b"<xml/>"}, "disk.vmdk is named"),
    ],
)
def test_what_is_no_package_is_refused_with_the_reason(tmp_path: Path, members: dict[str, bytes], why: str) -> None:
    with pytest.raises(InvalidCall) as caught, open_package(pack(tmp_path / "image", **members)) as package:
        package.description()
        package.open("disk.vmdk")
    assert why in caught.value.why


def test_a_file_that_cannot_be_read_or_is_no_archive(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"no archive" * 100)
    for path, word in ((broken, "no OVF package"), (tmp_path / "absent", "cannot be read")):
        with pytest.raises(InvalidCall) as caught, open_package(str(path)):
            pass
        assert word in caught.value.what
