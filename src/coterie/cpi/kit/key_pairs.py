"""SSH key pairs of VMs: an operator's by its name, or a public key that we register under a name that bears a mark and
remove with its last VM. Also the public half of a private key, for agents. A driver fills `KeyPairPort`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from coterie.cpi.contract import InvalidCall, Mark
from coterie.cpi.kit.parts import Parts

_MAGIC = b"openssh-key-v1\0"
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30


class KeyPairPort(Protocol):
    """Key pairs of one cloud. `digest`: SHA-256 of the public key without its comment."""

    def find(self, digest: bytes, mark: Mark) -> str | None:
        """The name of a pair with this key that this Director registered."""

    def name(self, digest: bytes, mark: Mark) -> str:
        """The name for a new pair."""

    def register(self, name: str, public_key: str) -> None:
        """One that is there already is fine."""

    def mark(self, name: str) -> Mark | None:
        """The mark in the name of a pair that this Director registered."""

    def list_users(self, name: str) -> Sequence[str]:
        """The ids of the VMs that have it."""

    def delete(self, name: str) -> None:
        """Gone already is fine."""


class KeyPairs:
    def __init__(self, port: KeyPairPort, default_name: str | None, parts: Parts | None = None) -> None:
        self._port = port
        self._default_name = default_name
        self._parts = parts or Parts()

    def ensure(self, public_key: str | None, key_name: str | None, mark: Mark) -> str | None:
        """The name of the pair for a new VM. A public key is registered if it is not yet; None: the VM gets none."""
        if not public_key:
            return key_name or self._default_name
        digest = key_digest(public_key)
        found = self._port.find(digest, mark)
        if found:
            if self._port.mark(found) == mark:
                self._parts.record(mark, "keypair", found, found)
            return found
        name = self._port.name(digest, mark)
        owner = self._port.mark(name) or mark
        self._parts.create(owner, "keypair", name, lambda: self._port.register(name, public_key), id_of=lambda _: name)
        return name

    def is_registered(self, public_key: str, mark: Mark) -> bool:
        return self._port.find(key_digest(public_key), mark) is not None

    def release(self, name: str | None) -> None:
        """Delete a pair of ours that no VM has any more; an operator's stays."""
        mark = self._port.mark(name) if name else None
        if not name or mark is None or not self._parts.is_ours(mark, "keypair", name, name):
            return
        if not self._port.list_users(name):
            self._port.delete(name)


def key_digest(public_key: str) -> bytes:
    words = public_key.split()
    if len(words) < 2:
        raise InvalidCall("cloud_properties.public_key is no public key", remedy="give one like ssh-ed25519 AAAA…")
    return hashlib.sha256(" ".join(words[:2]).encode()).digest()


def read_public_half(given: str | None) -> str | None:
    """Of a private key, a PEM text or the path of a file; None where there is none to be had."""
    if not given:
        return None
    try:
        return public_half(given if "-----BEGIN" in given else Path(given).read_text("utf-8"))
    except (OSError, ValueError):
        return None


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
    return _line(raw[at + 4 : at + 4 + _number(raw, at)])


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
