"""Builds the images: unified tarballs of Incus and LXD, the same bytes each time from the same packages."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coterie.slotted import replace
from coterie.stemcell.tiny.disk_image import disk_image
from coterie.stemcell.tiny.files import File, system_files, tar_entry

_METADATA = """architecture: {architecture}
creation_date: 1
properties:
  description: Coterie's tiny stemcell
  os: busybox
"""
# Incus writes the settings into a container at each start.
_TEMPLATES = """templates:
  /var/vcap/bosh/settings.json:
    when: [create, copy, start]
    template: settings.tpl
"""
_DESCRIPTION = """name: {name}
version: "1"
operating_system: busybox
api_version: 3
stemcell_formats: [incus-tar]
cloud_properties: {{}}
"""
_TEMPLATE = '{{ config_get("user.user-data", "{}")|safe }}'


def build(out: Path, busybox: Path, architecture: str, kernel: Path | None = None) -> None:
    """`kernel`: for a virtual machine, see `disk_image`; without one, it is for a container."""
    files = list(_container(busybox, architecture) if kernel is None else _machine(busybox, architecture, kernel))
    with (
        out.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for one in files:
            archive.addfile(tar_entry(one), io.BytesIO(one.content))


def build_stemcell(out: Path, busybox: Path, architecture: str, kernel: Path | None = None) -> None:
    """As `coterie stemcells upload` takes it: the image and its description."""
    with tempfile.TemporaryDirectory(prefix="coterie-tiny-") as folder:
        image = Path(folder) / "image"
        build(image, busybox, architecture, kernel)
        description = _DESCRIPTION.format(name="tiny-vm" if kernel else "tiny")
        files = (File("stemcell.MF", description.encode()), File("image", image.read_bytes()))
        with tarfile.open(out, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
            for one in files:
                archive.addfile(tar_entry(one), io.BytesIO(one.content))


def _container(busybox: Path, architecture: str) -> Iterator[File]:
    yield File("metadata.yaml", (_METADATA + _TEMPLATES).format(architecture=architecture).encode())
    yield File("templates/settings.tpl", _TEMPLATE.encode())
    yield File("rootfs", mode=0o755, is_folder=True)
    for file in system_files(busybox):
        yield replace(file, name=f"rootfs/{file.name}")


def _machine(busybox: Path, architecture: str, kernel: Path) -> Iterator[File]:
    yield File("metadata.yaml", _METADATA.format(architecture=architecture).encode())
    yield File("rootfs.img", disk_image(busybox, kernel, architecture))
