"""The key file of a conductor: private keys, newest first, for its owner only; and the public halves that others get.

A conductor group shares one file. Private keys leave it only as a copy that an operator makes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.errors import Refused, UsageError

_FORM = 1
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


class KeyFile:
    """Read anew when it has changed, so that a rotated file needs no restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: list[Key] = []
        self._seen: tuple[int, int] | None = None

    def ensure(self) -> None:
        """Make the first key. Of several processes that try at once, one wins and the others use its key."""
        if not self.path.exists():
            self._write([_fresh()], first=True)

    def add(self) -> Key:
        """Put a new key in front; the old ones still open what was sealed to them."""
        made = _fresh()
        present = self._read() if self.path.exists() else []
        self._write([made, *present], first=not present)
        return made

    def newest(self) -> Key | None:
        found = self._read()
        return found[0] if found else None

    def find(self, key_id: str) -> Key | None:
        return next((key for key in self._read() if key.public.id == key_id), None)

    def _read(self) -> list[Key]:
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return []
        require_private(self.path, facts)
        if self._seen != (facts.st_mtime_ns, facts.st_ino):
            self._keys = _parsed(self.path)
            self._seen = (facts.st_mtime_ns, facts.st_ino)
        return self._keys

    def _write(self, keys: list[Key], *, first: bool) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump({"coterie_keys": _FORM, "keys": [_row(key) for key in keys]}, out, indent=1)
                out.flush()
                os.fsync(handle)
            if first:
                _link_if_absent(draft, self.path)
            else:
                draft.rename(self.path)
        finally:
            draft.unlink(missing_ok=True)


def require_private(path: Path, facts: os.stat_result | None = None) -> None:
    """Refuse a file with a secret in it that others may read."""
    found = facts or path.stat()
    if found.st_mode & 0o077:
        raise Refused(
            f"{path} can be read by others",
            why=f"its mode is {found.st_mode & 0o777:o}, and it holds a secret",
            remedy=f"chmod 600 {path}; if others may have read it, make a new secret",
        )


def _link_if_absent(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return


def _fresh() -> Key:
    from nacl.public import PrivateKey

    made = PrivateKey.generate()
    return Key(PublicKey.of(bytes(made.public_key)), bytes(made), time.time())


def _row(key: Key) -> dict[str, Any]:
    private = base64.b64encode(key.private).decode()
    return {"id": key.public.id, "public": key.public.text, "private": private, "made_at": key.made_at}


def _parsed(path: Path) -> list[Key]:
    try:
        written = json.loads(path.read_text("utf-8"))
        if written["coterie_keys"] != _FORM:
            raise ValueError("it has another form")
        return [_key(row) for row in written["keys"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        # Not the error's own words: some repeat what they could not read.
        raise UsageError(
            f"{path} is no key file", why=type(error).__name__, remedy="restore it from another conductor of the group"
        ) from None


def _key(row: dict[str, Any]) -> Key:
    private = base64.b64decode(row["private"], validate=True)
    if len(private) != _SIZE:
        raise ValueError("a key has the wrong size")
    return Key(PublicKey.read(row["public"]), private, float(row["made_at"]))
