"""The disk inside a stemcell."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from coterie.cpi.contract import CpiError
from coterie.cpi.kit.stemcell_files import open_disk


def archive(**members: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name.replace('_', '.')}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def test_the_open_disk_a_stemcell_is_uploaded_not_its_archive(tmp_path: Path) -> None:
    path = tmp_path / "image"
    for raw, disk in ((archive(meta_txt=b"no", root_img=b"disk" * 9), b"disk" * 9), (b"QFI plain", b"QFI plain")):
        path.write_bytes(raw)
        with open_disk(path) as file:
            file.seek(0)
            assert file.read() == disk


@pytest.mark.parametrize(
    "raw",
    [archive(other_img=b"x"), gzip.compress(b"no archive"), archive(root_img=b"x" * 99)[:60]],
    ids=["of another file", "no archive at all", "cut off"],
)
def test_an_archive_without_a_disk_is_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(raw)
    with pytest.raises(CpiError, match="archive") as caught, open_disk(path):
        pass
    assert caught.value.remedy


def test_a_file_that_is_not_there_is_told_before_the_cloud_is_called(tmp_path: Path) -> None:
    with pytest.raises(CpiError, match="the image cannot be read") as told, open_disk(tmp_path / "none"):
        pass
    assert told.value.remedy == "name a file that exists"
