"""Images that Incus's daemon does not survive are refused before they are sent."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.incus.stemcells import _require_properties


def write(path: Path, metadata: str | None, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, text in (("./rootfs/etc/hostname", "one"), ("./metadata.yaml", metadata)):
            if text is not None:
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_an_image_without_properties_is_refused(tmp_path: Path, mode: str) -> None:
    with pytest.raises(InvalidCall, match="no properties"):
        _require_properties(write(tmp_path / "image", "architecture: x86_64\n", mode))


@pytest.mark.parametrize("text", ["properties: {os: x}\n", '{"properties": {}}', None])
def test_others_are_taken(tmp_path: Path, text: str | None) -> None:
    _require_properties(write(tmp_path / "image", text))


@pytest.mark.parametrize("raw", [b"", b"image", b"\x1f\x8b\x08\x00broken", b"\xfd7zXZ\x00broken", b"\x28\xb5\x2f\xfd"])
def test_what_cannot_be_read_is_left_to_incus(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(raw)
    _require_properties(path)


def test_a_broken_end_is_left_to_incus(tmp_path: Path) -> None:
    path = write(tmp_path / "image", "architecture: x86_64\n" + "# long\n" * 5000, "w")
    path.write_bytes(path.read_bytes()[:3000])
    _require_properties(path)
