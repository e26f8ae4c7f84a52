"""What agents are told holds secrets, and what waits for the one writer of a group waits in the ledger: so the request
is sealed with a key that follows from the cloud's credentials, which all who may apply it have."""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from typing import Any

from coterie.cpi.contract import CpiError, Json
from coterie.cpi.drivers.openstack.clouds_file import completed
from coterie.cpi.drivers.openstack.properties import Settings

_SALT_BYTES = 16
_SALT = secrets.token_bytes(_SALT_BYTES)  # of this process


def sealed(settings: Settings, body: Json) -> str:
    return (_SALT + bytes(_box(_secret(settings), _SALT).encrypt(json.dumps(body).encode()))).hex()


def unsealed(settings: Settings, text: str) -> Json:
    from nacl.exceptions import CryptoError

    raw = bytes.fromhex(text)
    try:
        body: Json = json.loads(_box(_secret(settings), raw[:_SALT_BYTES]).decrypt(raw[_SALT_BYTES:]))
    except CryptoError:
        raise CpiError(
            "a boot that waits was sealed with other credentials",
            why="the cloud's credentials changed meanwhile, or differ between conductors",
            remedy="repeat; give all conductors of the cloud the same credentials",
            retryable=True,
        ) from None
    return body


def _secret(settings: Settings) -> str:
    full = completed(settings)
    return full.application_credential_secret or full.password or ""


@lru_cache(maxsize=64)
def _box(secret: str, salt: bytes) -> Any:
    """A slow key: a password must not be guessed from what the ledger held."""
    from nacl.pwhash import argon2id
    from nacl.secret import SecretBox

    cpu, memory = argon2id.OPSLIMIT_INTERACTIVE, argon2id.MEMLIMIT_INTERACTIVE
    return SecretBox(argon2id.kdf(SecretBox.KEY_SIZE, secret.encode(), salt, opslimit=cpu, memlimit=memory))
