"""Rules of persistent disks that are the same on every cloud. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CpiError, DiskNotFound, InvalidCall, NotSupported

_MIB_PER_GIB = 1024
_SERIAL = 20  # characters of a volume's id that a virtio disk has as its serial number


def gib(size_mb: int) -> int:
    """Rounded up: never smaller than requested."""
    return -(-size_mb // _MIB_PER_GIB)


def require_size(size_mb: int) -> None:
    if size_mb < 1:
        raise InvalidCall(f"a disk of {size_mb} MB cannot be made", remedy="ask for at least 1 MB")


def require_detached(cid: str, vms: Sequence[str], remedy: str = "detach it first") -> None:
    if vms:
        raise CpiError(f"disk {cid} is attached to {vms[0]}", remedy=remedy)


def require_growth(cid: str, has_gib: float, new_size_mb: int) -> None:
    if gib(new_size_mb) < has_gib:
        raise NotSupported(f"disk {cid} cannot shrink", remedy="copy it to a smaller one")


def disk_missing(cid: str) -> DiskNotFound:
    return DiskNotFound(f"disk {cid} is not there", remedy="list what exists, and use one of those")


def serial_number(cid: str) -> str:
    return cid.replace("-", "")[:_SERIAL]
