"""The disk of the tiny stemcell for virtual machines: UEFI boots Debian's cloud kernel from it, with all that the
container has as its initial file system. The rest of the disk is the guest's."""

from __future__ import annotations

import gzip
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.errors import CoterieError
from coterie.stemcell.tiny.files import File, program_files, system_files

_LOADER = Path("/usr/lib/systemd/boot/efi/systemd-bootx64.efi")
_E2FSPROGS = (Path("/sbin/mke2fs"), Path("/sbin/resize2fs"))
_PACKAGES = "systemd-boot-efi, e2fsprogs, dosfstools, mtools and qemu-utils"
_MODULES = ("virtio_pci", "virtio_scsi", "virtio_net", "sd_mod", "sr_mod", "isofs")
# quiet: messages on a serial line slow it down. no_timer_check: a CPU that is emulated may fail that check.
_OPTIONS = "console=ttyS0 quiet panic=-1 no_timer_check"
_ENTRY = f"title tiny\nlinux /linux\ninitrd /initrd\noptions {_OPTIONS}\n"
_SECTOR, _START_MIB, _ROOM_MIB = 512, 1, 4
_EFI = 0xEF


def disk_image(busybox: Path, kernel: Path, architecture: str) -> bytes:
    """As qcow2. `kernel`: Debian's package linux-image-…-cloud-amd64, as a file, which is not installed."""
    if architecture != "x86_64":
        raise CoterieError(f"there is no tiny virtual machine for {architecture}", remedy="build it for x86_64")
    if not kernel.is_file():
        raise CoterieError(f"there is no {kernel}", remedy="fetch the package with `apt-get download`, and name it")
    with tempfile.TemporaryDirectory(prefix="coterie-tiny-") as name:
        folder = Path(name)
        tree, boot = folder / "kernel", folder / "boot"
        _run("dpkg-deb", "--extract", kernel, tree)
        (boot / "EFI/BOOT").mkdir(parents=True)
        (boot / "loader/entries").mkdir(parents=True)
        (boot / "EFI/BOOT/BOOTX64.EFI").write_bytes(_read(_LOADER))
        (boot / "loader/loader.conf").write_text("timeout 0\n")
        (boot / "loader/entries/tiny.conf").write_text(_ENTRY)
        (boot / "linux").write_bytes(next(tree.glob("boot/vmlinuz-*")).read_bytes())
        (boot / "initrd").write_bytes(_initrd(busybox, tree))
        _write_disk(folder / "raw", boot)
        _run("qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", folder / "raw", folder / "qcow2")
        return (folder / "qcow2").read_bytes()


def _write_disk(raw: Path, boot: Path) -> None:
    """One partition that UEFI reads, in a table of the old form: the guest adds a second one for what is left."""
    used = sum(path.stat().st_size for path in boot.rglob("*")) // 2**20
    size = (used + _ROOM_MIB) * 2**20 // _SECTOR
    start = _START_MIB * 2**20 // _SECTOR
    with raw.open("wb") as file:
        file.truncate((start + size) * _SECTOR)
        file.seek(446)
        file.write(struct.pack("<B3sB3sII", 0, b"\0\2\0", _EFI, b"\xff" * 3, start, size) + bytes(48) + b"\x55\xaa")
    _run("mkfs.fat", "--invariant", "-i", "c07e21e0", "--offset", str(start), raw, str(size // 2))
    _run("mcopy", "-s", "-i", f"{raw}@@{_START_MIB}M", *sorted(boot.iterdir()), "::/")


def _initrd(busybox: Path, tree: Path) -> bytes:
    return gzip.compress(b"".join(cpio_archive(_files(busybox, tree))), mtime=0)


def _files(busybox: Path, tree: Path) -> Iterator[File]:
    yield from system_files(busybox)
    yield from program_files({"init": "boot", "sbin/disks": "disks"})
    modules = module_order(tree)
    yield File("lib/modules/order", "".join(f"{path.name}\n" for path in modules).encode())
    for path in modules:
        yield File(f"lib/modules/{path.name}", path.read_bytes())
    for program in _E2FSPROGS:
        yield File(f"usr/sbin/{program.name}", _read(program), 0o755)
    for library in sorted({one for program in _E2FSPROGS for one in _libraries(program)}):
        yield File(library[1:], Path(library).read_bytes(), 0o755)


def module_order(tree: Path) -> list[Path]:
    """In the order in which they can be loaded. What has no file is part of the kernel itself."""
    known = {path.stem.replace("-", "_"): path for path in tree.glob("lib/modules/*/kernel/**/*.ko")}
    found: list[Path] = []

    def add(name: str) -> None:
        path = known.get(name.replace("-", "_"))
        if path is None or path in found:
            return
        listed = re.search(rb"\0depends=([^\0]+)\0", path.read_bytes())
        for needed in listed[1].decode().split(",") if listed else ():
            add(needed)
        found.append(path)

    for name in _MODULES:
        add(name)
    return found


def _libraries(program: Path) -> list[str]:
    return re.findall(r"(/\S+) \(0x", _run("ldd", program))


def cpio_archive(files: Iterable[File]) -> Iterator[bytes]:
    """In the form that the kernel unpacks (newc), each folder before what is in it."""
    known = set()
    for file in files:
        folders = [File(str(one), mode=0o755, is_folder=True) for one in reversed(Path(file.name).parents)]
        for one in (*folders[1:], file):
            if one.name not in known:
                known.add(one.name)
                yield _cpio_entry(one, len(known))
    yield _cpio_entry(File("TRAILER!!!", mode=0), 0)


def _cpio_entry(file: File, number: int) -> bytes:
    kind = 0o040000 if file.is_folder else 0o120000 if file.link else 0o100000
    content, name = file.link.encode() or file.content, file.name.encode() + b"\0"
    fields = (number, kind | file.mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % one for one in fields) + name
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise CoterieError(f"there is no {path}", remedy=f"install the packages {_PACKAGES}")
    return path.read_bytes()


def _run(*words: str | Path) -> str:
    """With a fixed time for mtools, so that the bytes are the same, and folders that not every user's PATH has."""
    path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000", "TZ": "UTC", "PATH": path}
    try:
        ran = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise CoterieError(f"there is no program {words[0]}", remedy=f"install the packages {_PACKAGES}") from error
    except subprocess.CalledProcessError as error:
        raise CoterieError(f"{words[0]} failed", why=error.stderr[-500:], remedy="see what it says") from error
    return ran.stdout
