"""The documents and the tiny stemcells of the demonstration, written to a folder. They are part of the package."""

from __future__ import annotations

import io
import tarfile
from importlib.resources import files
from pathlib import Path

VERSIONS = ("1.1", "1.2")
_DESCRIPTION = """\
name: debian-12
version: "{version}"
operating_system: debian-12
api_version: 3
stemcell_formats: [sandbox-raw]
cloud_properties: {{}}
"""
_IMAGE_BYTES = 65536


def write_files(folder: Path) -> list[Path]:
    """Write all of them; a file that is there already is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = files("coterie.cli.demo") / "documents"
    texts = {one.name: one.read_bytes() for one in documents.iterdir() if one.name.endswith(".yml")}
    texts |= {f"stemcell-{version}.tgz": _stemcell(version) for version in VERSIONS}
    written = []
    for name, content in sorted(texts.items()):
        file = folder / name
        if not file.exists():
            file.write_bytes(content)
            written.append(file)
    return written


def _stemcell(version: str) -> bytes:
    """A stemcell for the sandbox, packed as BOSH packs real ones: a description and an image."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (
            ("stemcell.MF", _DESCRIPTION.format(version=version).encode()),
            ("image", bytes(_IMAGE_BYTES)),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
