"""The public half of a private SSH key, as agents are told it. Pure; the private half goes nowhere."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator

_MAGIC = b"openssh-key-v1\0"
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30


def public_half(pem: str) -> str | None:
    """Like `ssh-rsa AAAA…`; None where this is no key, or one whose public half cannot be read without a password."""
    lines = [line.strip() for line in pem.strip().splitlines()]
    body = [line for line in lines if line and not line.startswith("-----") and ":" not in line]
    try:
        raw = base64.b64decode("".join(body), validate=True)
        return _of_openssh(raw) if raw.startswith(_MAGIC) else _of_rsa(raw)
    except (binascii.Error, ValueError, IndexError, struct.error):
        return None


def _of_openssh(raw: bytes) -> str:
    """Cipher, its options, a count, then the public half, which is never encrypted."""
    at = len(_MAGIC)
    for _ in range(3):
        at += 4 + _number(raw, at)
    at += 4
    blob = raw[at + 4 : at + 4 + _number(raw, at)]
    return _line(blob)


def _of_rsa(raw: bytes) -> str | None:
    """The numbers of an RSA key come first in both of its forms; the newer one is wrapped once more."""
    parts = list(_parts(_inside(raw, _SEQUENCE)))
    wrapped = next((value for kind, value in parts if kind == _OCTETS), None)
    if wrapped is not None:
        parts = list(_parts(_inside(wrapped, _SEQUENCE)))
    numbers = [value for kind, value in parts if kind == _INTEGER]
    if len(numbers) < 3:
        return None
    return _line(b"".join(_text(one) for one in (b"ssh-rsa", numbers[2], numbers[1])))


def _line(blob: bytes) -> str:
    kind = blob[4 : 4 + _number(blob, 0)].decode("ascii")
    return f"{kind} {base64.b64encode(blob).decode()}"


def _text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _number(raw: bytes, at: int) -> int:
    return int(struct.unpack_from(">I", raw, at)[0])


def _inside(raw: bytes, kind: int) -> bytes:
    for found, value in _parts(raw):
        if found == kind:
            return value
    raise ValueError("no such part")


def _parts(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(raw):
        kind, size, at = raw[at], raw[at + 1], at + 2
        if size & 0x80:
            wide = size & 0x7F
            size, at = int.from_bytes(raw[at : at + wide], "big"), at + wide
        yield kind, raw[at : at + size]
        at += size
