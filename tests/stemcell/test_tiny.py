"""The tiny stemcell's images, as far as no cloud is needed for them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.stemcell.tiny.build import build, build_stemcell
from coterie.stemcell.tiny.disk_image import cpio_archive, module_order
from coterie.stemcell.tiny.files import File

PROGRAM = "#!/bin/sh\necho busybox; echo sh; echo init\n"


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    path = tmp_path / "busybox"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def test_the_same_busybox_gives_the_same_image_with_the_applets_but_the_kernels_first_program(
    tmp_path: Path, busybox: Path
) -> None:
    for name in ("one", "two"):
        build(tmp_path / name, busybox, "x86_64")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as image:
        names = image.getnames()
        assert image.getmember("rootfs/bin/sh").linkname == "busybox"
        metadata = image.extractfile("metadata.yaml")
        assert metadata is not None and b"templates:" in metadata.read()
    assert "rootfs/bin/init" not in names
    assert "rootfs/sbin/init" in names


def test_what_is_missing_is_named_with_its_package(tmp_path: Path, busybox: Path) -> None:
    with pytest.raises(CoterieError, match="there is no") as lacking:
        build_stemcell(tmp_path / "out", tmp_path / "none", "x86_64")
    assert "busybox-static" in lacking.value.remedy
    with pytest.raises(CoterieError, match=r"there is no .*none\.deb") as lacking:
        build_stemcell(tmp_path / "out", busybox, "x86_64", tmp_path / "none.deb")
    assert "apt-get download" in lacking.value.remedy
    with pytest.raises(CoterieError, match="no tiny virtual machine for riscv64"):
        build_stemcell(tmp_path / "out", busybox, "riscv64", busybox)
    with pytest.raises(CoterieError, match="dpkg-deb failed"):
        build_stemcell(tmp_path / "out", busybox, "x86_64", busybox)
    assert not (tmp_path / "out").exists()


def test_modules_come_after_those_that_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "lib/modules/6.1/kernel/drivers"
    folder.mkdir(parents=True)
    for name, needed in {"virtio_net": "net-failover,virtio", "net-failover": "", "virtio": "", "other": ""}.items():
        (folder / f"{name}.ko").write_bytes(f"\0depends={needed}\0license=GPL\0".encode())
    assert [path.stem for path in module_order(tmp_path)] == ["net-failover", "virtio", "virtio_net"]


def test_an_initial_file_system_has_each_folder_once_and_before_what_is_in_it() -> None:
    files = [File("a", mode=0o755, is_folder=True), File("a/b/c", b"content", 0o600), File("a/l", link="b/c")]
    found = list(_read(b"".join(cpio_archive(files))))
    assert found == [
        ("a", 0o040755, b""),
        ("a/b", 0o040755, b""),
        ("a/b/c", 0o100600, b"content"),
        ("a/l", 0o120644, b"b/c"),
    ]


def _read(archive: bytes) -> Iterator[tuple[str, int, bytes]]:
    at = 0
    while True:
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        assert archive[at : at + 6] == b"070701"
        mode, size, length = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 109 + length].decode()
        begin = (at + 110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return
        yield name, mode, archive[begin : begin + size]
        at = (begin + size + 3) // 4 * 4
