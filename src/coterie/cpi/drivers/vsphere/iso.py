"""A CD with one file, as BOSH's agents on vSphere read their settings. Pure: bytes in, an ISO 9660 image out."""

from __future__ import annotations

import struct

_SECTOR = 2048
_SYSTEM_AREA, _DESCRIPTOR, _END, _PATHS_L, _PATHS_M, _ROOT, _FILE = 0, 16, 17, 18, 19, 20, 21
_DATE = bytes([126, 11, 16, 0, 0, 0, 0])  # fixed: the same settings give the same image
_LONG_DATE = b"0" * 16 + b"\0"


def image(name: str, content: bytes) -> bytes:
    """`name`: eight characters at most; Linux shows it in lower case."""
    identifier = f"{name.upper()}.;1".encode("ascii")
    data_sectors = max(1, -(-len(content) // _SECTOR))
    total = _FILE + data_sectors
    sectors = {
        _DESCRIPTOR: _primary(total),
        _END: b"\xffCD001\x01",
        _PATHS_L: struct.pack("<BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _PATHS_M: struct.pack(">BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _ROOT: _record(b"\0", _ROOT, _SECTOR, True)
        + _record(b"\1", _ROOT, _SECTOR, True)
        + _record(identifier, _FILE, len(content), False),
    }
    head = b"".join(sectors.get(number, b"").ljust(_SECTOR, b"\0") for number in range(_FILE))
    return head + content.ljust(data_sectors * _SECTOR, b"\0")


def _primary(total: int) -> bytes:
    """The primary volume descriptor: how long the volume is, and where its root folder and path tables are."""
    return b"".join(
        (
            b"\x01CD001\x01\0",
            b"".ljust(32),
            b"COTERIE".ljust(32),
            b"\0" * 8,
            _both32(total),
            b"\0" * 32,
            _both16(1) + _both16(1) + _both16(_SECTOR),
            _both32(10),
            struct.pack("<II", _PATHS_L, 0) + struct.pack(">II", _PATHS_M, 0),
            _record(b"\0", _ROOT, _SECTOR, True),
            b"".ljust(128 * 4 + 37 * 3),
            _LONG_DATE * 4,
            b"\x01\0",
        )
    )


def _record(identifier: bytes, at: int, size: int, folder: bool) -> bytes:
    body = b"".join(
        (
            b"\0",
            _both32(at),
            _both32(size),
            _DATE,
            b"\x02" if folder else b"\0",
            b"\0\0",
            _both16(1),
            bytes([len(identifier)]),
            identifier,
        )
    )
    body += b"\0" * ((len(body) + 1) % 2)  # records have an even length
    return bytes([len(body) + 1]) + body


def _both16(value: int) -> bytes:
    return struct.pack("<H", value) + struct.pack(">H", value)


def _both32(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)
