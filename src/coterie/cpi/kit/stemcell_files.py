"""The disk inside a stemcell's image: the file itself, or what BOSH's archive holds. Unpacked before the cloud is
called, so that a broken archive leaves nothing there.

What unpacks is imported by the calls that unpack: other calls of `coterie-cpi` would pay for it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coterie.cpi.contract import CpiError

_GZIP = b"\x1f\x8b"
_DISK = "root."  # the builder names it root.img, root.vhd or root.vhdx
_REMEDY = "give the image as it is in a stemcell, or the disk itself"


def open_image(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise CpiError("the image cannot be read", why=str(error), remedy="name a file that exists") from error


@contextmanager
def open_disk(path: Path) -> Iterator[IO[bytes]]:
    with open_image(path) as file:
        if not _is_packed(path):
            yield file
            return
        from tempfile import TemporaryFile

        with TemporaryFile(prefix="coterie-stemcell-") as disk:
            _unpack(file, disk)
            yield disk


@contextmanager
def unpack_disk(path: Path) -> Iterator[Path]:
    """As `open_disk`, for what reads a file by its path."""
    if not _is_packed(path):
        yield path
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="coterie-stemcell-") as folder:
        disk = Path(folder) / path.name
        with path.open("rb") as file, disk.open("wb") as unpacked:
            _unpack(file, unpacked)
        yield disk


def _is_packed(path: Path) -> bool:
    with open_image(path) as file:
        return file.read(len(_GZIP)) == _GZIP


def _unpack(file: IO[bytes], disk: IO[bytes]) -> None:
    import shutil
    import tarfile
    import zlib

    try:
        with tarfile.open(fileobj=file, mode="r|gz") as archive:
            for member in archive:
                inside = archive.extractfile(member) if Path(member.name).name.startswith(_DISK) else None
                if inside:
                    shutil.copyfileobj(inside, disk)
                    return
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise CpiError("the stemcell's image is a broken archive", why=str(error), remedy=_REMEDY) from error
    raise CpiError("the stemcell's image is an archive without root.img", remedy=_REMEDY)
