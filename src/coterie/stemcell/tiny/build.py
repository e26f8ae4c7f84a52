"""Builds the image: a unified tarball of Incus and LXD, the same bytes each time."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import CoterieError
from coterie.slotted import dataclass

_HERE = Path(__file__).parent
_FOLDERS = (
    *("bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root", "www", "www/cgi-bin", "var", "var/vcap"),
    *("var/vcap/bosh", "var/vcap/data", "var/vcap/store"),
)
_PROGRAMS = {"sbin/init": "init", "sbin/facts": "facts", "www/cgi-bin/write": "write"}
# Incus writes the settings into the guest at each start.
_METADATA = """architecture: {architecture}
creation_date: 1
properties:
  description: Coterie's tiny stemcell
  os: busybox
templates:
  /var/vcap/bosh/settings.json:
    when: [create, copy, start]
    template: settings.tpl
"""
_DESCRIPTION = """name: tiny
version: "1"
operating_system: busybox
api_version: 3
stemcell_formats: [incus-tar]
cloud_properties: {}
"""
_TEMPLATE = '{{ config_get("user.user-data", "{}")|safe }}'


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    is_folder: bool = False


def build(out: Path, busybox: Path, architecture: str) -> None:
    """`busybox`: one that needs no libraries, such as Debian's package busybox-static has."""
    if not busybox.is_file():
        raise CoterieError(
            f"there is no {busybox}", remedy="install the package busybox-static, or name one with --busybox"
        )
    with (
        out.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for one in _files(busybox, architecture):
            archive.addfile(_entry(one), io.BytesIO(one.content))


def build_stemcell(out: Path, busybox: Path, architecture: str) -> None:
    """As `coterie stemcells upload` takes it: the image and its description."""
    with tempfile.TemporaryDirectory(prefix="coterie-tiny-") as folder:
        image = Path(folder) / "image"
        build(image, busybox, architecture)
        files = (_File("stemcell.MF", _DESCRIPTION.encode()), _File("image", image.read_bytes()))
        with tarfile.open(out, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
            for one in files:
                archive.addfile(_entry(one), io.BytesIO(one.content))


def _files(busybox: Path, architecture: str) -> Iterator[_File]:
    yield _File("metadata.yaml", _METADATA.format(architecture=architecture).encode())
    yield _File("templates/settings.tpl", _TEMPLATE.encode())
    yield _File("rootfs", mode=0o755, is_folder=True)
    for name in _FOLDERS:
        yield _File(f"rootfs/{name}", mode=0o1777 if name == "tmp" else 0o755, is_folder=True)
    yield _File("rootfs/bin/busybox", busybox.read_bytes(), 0o755)
    for applet in _applets(busybox):
        yield _File(f"rootfs/bin/{applet}", link="busybox")
    yield _File("rootfs/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    yield _File("rootfs/etc/group", b"root:x:0:\n")
    for name, source in _PROGRAMS.items():
        yield _File(f"rootfs/{name}", (_HERE / source).read_bytes(), 0o755)


def _applets(busybox: Path) -> list[str]:
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout
    return sorted(set(listed.split()) - {"busybox", "init"})


def _entry(file: _File) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(file.name)
    entry.mode, entry.size = file.mode, len(file.content)
    entry.type = tarfile.DIRTYPE if file.is_folder else tarfile.SYMTYPE if file.link else tarfile.REGTYPE
    entry.linkname = file.link
    return entry
