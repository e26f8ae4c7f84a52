"""A CD with one file, for agents that read their settings from one: bytes in, an ISO 9660 image out. Pure."""

from __future__ import annotations

import struct

_SECTOR = 2048
_DESCRIPTOR, _END, _PATHS_L, _PATHS_M, _ROOT, _FILE = 16, 17, 18, 19, 20, 21
_DATE = bytes([126, 11, 16, 0, 0, 0, 0])  # fixed: the same settings give the same image
_LONG_DATE = b"0" * 16 + b"\0"


def cd_image(name: str, content: bytes) -> bytes:
    """`name`: of the only file, eight characters at most; Linux shows it in lower case."""
    identifier = f"{name.upper()}.;1".encode("ascii")
    data_sectors = max(1, -(-len(content) // _SECTOR))
    sectors = {
        _DESCRIPTOR: _volume_descriptor(_FILE + data_sectors),
        _END: b"\xffCD001\x01",
        _PATHS_L: struct.pack("<BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _PATHS_M: struct.pack(">BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _ROOT: _record(b"\0", _ROOT, _SECTOR, True)
        + _record(b"\1", _ROOT, _SECTOR, True)
        + _record(identifier, _FILE, len(content), False),
    }
    head = b"".join(sectors.get(number, b"").ljust(_SECTOR, b"\0") for number in range(_FILE))
    return head + content.ljust(data_sectors * _SECTOR, b"\0")


def _volume_descriptor(sectors: int) -> bytes:
    """How long the volume is, and where its root folder and path tables are."""
    parts = (
        b"\x01CD001\x01\0",
        b"".ljust(32),
        b"COTERIE".ljust(32),
        b"\0" * 8,
        _both32(sectors),
        b"\0" * 32,
        _both16(1) + _both16(1) + _both16(_SECTOR),
        _both32(10),
        struct.pack("<II", _PATHS_L, 0) + struct.pack(">II", _PATHS_M, 0),
        _record(b"\0", _ROOT, _SECTOR, True),
        b"".ljust(128 * 4 + 37 * 3),
        _LONG_DATE * 4,
        b"\x01\0",
    )
    return b"".join(parts)


def _record(identifier: bytes, sector: int, size: int, is_folder: bool) -> bytes:
    flags = b"\x02" if is_folder else b"\0"
    parts = (b"\0", _both32(sector), _both32(size), _DATE, flags, b"\0\0", _both16(1), bytes([len(identifier)]))
    body = b"".join(parts) + identifier
    body += b"\0" * ((len(body) + 1) % 2)  # records have an even length
    return bytes([len(body) + 1]) + body


def _both16(value: int) -> bytes:
    return struct.pack("<H", value) + struct.pack(">H", value)


def _both32(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)
