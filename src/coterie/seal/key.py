"""One key pair: the private half that opens, the public half that seals, and how each is written."""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from dataclasses import dataclass
from typing import Any

from coterie.errors import UsageError

_SIZE = 32


@dataclass(frozen=True, slots=True)
class PublicKey:
    id: str
    raw: bytes

    @staticmethod
    def of(raw: bytes) -> PublicKey:
        return PublicKey(hashlib.sha256(raw).hexdigest()[:20], raw)

    @staticmethod
    def read(text: str) -> PublicKey:
        """From its written form; refuses what is none."""
        try:
            raw = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            raw = b""
        if len(raw) != _SIZE:
            raise UsageError("this is no public key", remedy="give what `coterie conductors keys make` printed")
        return PublicKey.of(raw)

    @property
    def text(self) -> str:
        return base64.b64encode(self.raw).decode()


@dataclass(frozen=True, slots=True)
class Key:
    public: PublicKey
    private: bytes
    made_at: float

    def __repr__(self) -> str:
        # A key must not end up in a log by way of an error message.
        return f"Key({self.public.id})"


def fresh() -> Key:
    from nacl.public import PrivateKey

    made = PrivateKey.generate()
    return Key(PublicKey.of(bytes(made.public_key)), bytes(made), time.time())


def to_row(key: Key) -> dict[str, Any]:
    private = base64.b64encode(key.private).decode()
    return {"id": key.public.id, "public": key.public.text, "private": private, "made_at": key.made_at}


def of_row(row: dict[str, Any]) -> Key:
    private = base64.b64decode(row["private"], validate=True)
    if len(private) != _SIZE:
        raise ValueError("a key has the wrong size")
    return Key(PublicKey.read(row["public"]), private, float(row["made_at"]))
