"""Reads a CD as a machine does: the files of an ISO 9660 image."""

from __future__ import annotations

SECTOR = 2048


def files_on_cd(content: bytes) -> dict[str, bytes]:
    """The files in the root folder of an ISO 9660 image, read from its descriptor on."""
    assert content[16 * SECTOR : 16 * SECTOR + 7] == b"\x01CD001\x01"
    root = content[16 * SECTOR + 156 :]
    at, size = (int.from_bytes(root[o : o + 4], "little") for o in (2, 10))
    folder, found, offset = content[at * SECTOR : at * SECTOR + size], {}, 0
    while folder[offset]:
        entry = folder[offset : offset + folder[offset]]
        where, length = (int.from_bytes(entry[o : o + 4], "little") for o in (2, 10))
        name = entry[33 : 33 + entry[32]]
        if not entry[25] & 2:
            found[name.decode()] = content[where * SECTOR : where * SECTOR + length]
        offset += folder[offset]
    return found
