"""What agents are told holds secrets, and what waits for the one writer of a group waits in the ledger: so the request
is sealed with a key that follows from the cloud's credentials, which all who may apply it have."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from coterie.cpi.contract import CpiError, Json
from coterie.cpi.openstack.clouds_file import completed
from coterie.cpi.openstack.properties import Settings


def sealed(settings: Settings, body: Json) -> str:
    return bytes(_box(settings).encrypt(json.dumps(body).encode())).hex()


def unsealed(settings: Settings, text: str) -> Json:
    from nacl.exceptions import CryptoError

    try:
        body: Json = json.loads(_box(settings).decrypt(bytes.fromhex(text)))
    except CryptoError:
        raise CpiError(
            "a boot that waits was sealed with other credentials",
            why="the cloud's credentials changed meanwhile, or differ between conductors",
            remedy="repeat; give all conductors of the cloud the same credentials",
            retryable=True,
        ) from None
    return body


def _box(settings: Settings) -> Any:
    from nacl.secret import SecretBox

    full = completed(settings)
    secret = full.application_credential_secret or full.password or ""
    return SecretBox(hashlib.blake2b(secret.encode(), digest_size=SecretBox.KEY_SIZE, person=b"coterie-boot").digest())
