"""The image of a stemcell as an OVF package: a tar file with a description and the disks that it names."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from coterie.cpi.contract import InvalidCall

_DESCRIPTION_LIMIT = 4 * 1024 * 1024  # a description is a few kilobytes


@contextmanager
def open_package(path: str) -> Iterator[OvfPackage]:
    try:
        with tarfile.open(path) as archive:
            yield OvfPackage(archive)
    except (FileNotFoundError, PermissionError) as error:
        raise InvalidCall(f"image_path {path!r} cannot be read", why=str(error), remedy="check the file") from error
    except (tarfile.TarError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise _no_package(str(error)) from error


class OvfPackage:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members = {member.name.removeprefix("./"): member for member in archive.getmembers() if member.isfile()}

    def description(self) -> str:
        name = next((name for name in self._members if name.endswith(".ovf")), None)
        if name is None:
            raise _no_package("it holds no .ovf file")
        if self._members[name].size > _DESCRIPTION_LIMIT:
            raise _no_package(f"{name} is larger than {_DESCRIPTION_LIMIT} bytes")
        return self.open(name)[0].read().decode()

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """A file that the description names, and its size."""
        member = self._members.get(name)
        file = self._archive.extractfile(member) if member else None
        if member is None or file is None:
            raise _no_package(f"{name} is named in the description, and not there")
        return file, member.size


def _no_package(why: str) -> InvalidCall:
    return InvalidCall("the image is no OVF package", why=why, remedy="give the image of a vSphere stemcell")
