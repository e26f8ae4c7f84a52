"""What both kinds of the tiny stemcell have inside: busybox, its names, and the programs of this folder."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from coterie.errors import CoterieError
from coterie.slotted import dataclass

_HERE = Path(__file__).parent
_FOLDERS = (
    *("bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root", "www", "www/cgi-bin", "var", "var/vcap"),
    *("var/vcap/bosh", "var/vcap/data", "var/vcap/store"),
)


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    is_folder: bool = False


def system_files(busybox: Path) -> Iterator[File]:
    """`busybox`: one that needs no libraries, such as Debian's package busybox-static has."""
    if not busybox.is_file():
        raise CoterieError(
            f"there is no {busybox}", remedy="install the package busybox-static, or name one with --busybox"
        )
    for name in _FOLDERS:
        yield File(name, mode=0o1777 if name == "tmp" else 0o755, is_folder=True)
    yield File("bin/busybox", busybox.read_bytes(), 0o755)
    for applet in _applets(busybox):
        yield File(f"bin/{applet}", link="busybox")
    yield File("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    yield File("etc/group", b"root:x:0:\n")
    yield from program_files({"sbin/init": "init", "sbin/facts": "facts", "www/cgi-bin/write": "write"})


def program_files(sources: Mapping[str, str]) -> Iterator[File]:
    """`sources`: path inside → name in this folder."""
    for name, source in sources.items():
        yield File(name, (_HERE / source).read_bytes(), 0o755)


def tar_entry(file: File) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(file.name)
    entry.mode, entry.size = file.mode, len(file.content)
    entry.type = tarfile.DIRTYPE if file.is_folder else tarfile.SYMTYPE if file.link else tarfile.REGTYPE
    entry.linkname = file.link
    return entry


def _applets(busybox: Path) -> list[str]:
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout
    return sorted(set(listed.split()) - {"busybox", "init"})
