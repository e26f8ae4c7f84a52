"""Signatures of a Director (Ed25519): what conductors obey was written by it, and not by others with a way into the
database. The private key lies in a file of the Director's state folder, for its owner only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.errors import UsageError
from coterie.seal.keys import require_private

_FORM = "coterie-signed-1"
_SIZE = 32


@dataclass(frozen=True, slots=True)
class Verifier:
    """The public half."""

    id: str
    raw: bytes

    @staticmethod
    def of(raw: bytes) -> Verifier:
        return Verifier(hashlib.sha256(raw).hexdigest()[:20], raw)

    @staticmethod
    def read(text: str) -> Verifier:
        return Verifier.of(base64.b64decode(text))

    @property
    def text(self) -> str:
        return base64.b64encode(self.raw).decode()

    def accepts(self, message: Mapping[str, Any], signature: str) -> bool:
        from nacl.exceptions import BadSignatureError
        from nacl.signing import VerifyKey

        try:
            VerifyKey(self.raw).verify(_bytes(message), base64.b64decode(signature, validate=True))
        except (BadSignatureError, ValueError, binascii.Error):
            return False
        return True


class Signer:
    """The private half. Its text form must not end up in a log, so it has none."""

    def __init__(self, seed: bytes) -> None:
        from nacl.signing import SigningKey

        self._key = SigningKey(seed)
        self.public = Verifier.of(bytes(self._key.verify_key))

    @staticmethod
    def load(path: Path) -> Signer:
        """Of several processes that start at once, one makes the file and the others read it."""
        if not path.exists():
            _create(path)
        require_private(path)
        try:
            written = json.loads(path.read_text("utf-8"))
            seed = base64.b64decode(written["private"], validate=True)
            if written["coterie_signing_key"] != 1 or len(seed) != _SIZE:
                raise ValueError("it has another form")
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Not the error's own words: some repeat what they could not read.
            raise UsageError(
                f"{path} is no signing key", why=type(error).__name__, remedy="remove it; the next start makes another"
            ) from None
        return Signer(seed)

    def sign(self, message: Mapping[str, Any]) -> str:
        return base64.b64encode(self._key.sign(_bytes(message)).signature).decode()


def _bytes(message: Mapping[str, Any]) -> bytes:
    """The same for a message and for what a JSON column gives back of it."""
    plain = json.loads(json.dumps(message))
    return f"{_FORM}\n{json.dumps(plain, sort_keys=True, separators=(',', ':'))}".encode()


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"coterie_signing_key": 1, "private": base64.b64encode(os.urandom(_SIZE)).decode()}, out)
            out.flush()
            os.fsync(handle)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink(missing_ok=True)
