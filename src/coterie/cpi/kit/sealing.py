"""Seals what a change must hold in spite of its secrets while it waits in the ledger: with a key that follows from the
cloud's credentials, which every process that may apply the change has."""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from typing import Any

from coterie.cpi.contract import CpiError, Json

_SALT_BYTES = 16
_SALT = secrets.token_bytes(_SALT_BYTES)  # of this process


def seal(secret: str, body: Json) -> str:
    return (_SALT + bytes(_box(secret, _SALT).encrypt(json.dumps(body).encode()))).hex()


def unseal(secret: str, text: str) -> Json:
    from nacl.exceptions import CryptoError

    raw = bytes.fromhex(text)
    try:
        body: Json = json.loads(_box(secret, raw[:_SALT_BYTES]).decrypt(raw[_SALT_BYTES:]))
    except CryptoError:
        raise CpiError(
            "a waiting change was sealed with other credentials",
            why="the cloud's credentials changed meanwhile, or differ between conductors",
            remedy="repeat; give all conductors of the cloud the same credentials",
            retryable=True,
        ) from None
    return body


@lru_cache(maxsize=64)
def _box(secret: str, salt: bytes) -> Any:
    """A slow key: a password must not be guessed from what the ledger held."""
    from nacl.pwhash import argon2id
    from nacl.secret import SecretBox

    cpu, memory = argon2id.OPSLIMIT_INTERACTIVE, argon2id.MEMLIMIT_INTERACTIVE
    return SecretBox(argon2id.kdf(SecretBox.KEY_SIZE, secret.encode(), salt, opslimit=cpu, memlimit=memory))
