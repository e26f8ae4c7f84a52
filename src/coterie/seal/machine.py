"""Secrets of machines: `env` and `user_data` of an instance group, and tags that repeat their values. They are named by
a slow hash of their content, and sealed to a conductor group.

The name tells whether they changed. The deployment and the name are sealed in, so that they serve no other deployment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from coterie.errors import Refused
from coterie.ids import INTENT_LENGTH, base32
from coterie.redact import REDACTED, Redactor
from coterie.seal.key import Key, PublicKey

_BLOCK = 256  # lengths are rounded up, so that they tell little of a password
_COST = 2**14  # with 16 MiB of memory: about 50 ms for each guess at a weak secret
_MEMORY = 64 * 2**20


@dataclass(frozen=True, slots=True)
class MachineSecrets:
    env: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user_data: str | None = field(default=None, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)  # those that repeat a value of the others

    def __bool__(self) -> bool:
        return bool(self.env or self.user_data)

    def wire(self) -> dict[str, Any]:
        return {"env": dict(self.env), "user_data": self.user_data, "tags": dict(self.tags)}


def find_secrets(env: Mapping[str, Any], user_data: str | None, tags: Mapping[str, str]) -> MachineSecrets:
    repeated = Redactor(secret=[env, user_data]) if tags and (env or user_data) else None
    hidden = {key: value for key, value in tags.items() if repeated and repeated.hide(str(value)) != str(value)}
    return MachineSecrets(env, user_data, hidden)


def hide_tags(tags: Mapping[str, str], secrets: MachineSecrets) -> dict[str, str]:
    return {key: REDACTED if key in secrets.tags else value for key, value in tags.items()}


@dataclass(frozen=True, slots=True)
class Holder:
    """The instance group whose secrets they are. Equal secrets of two holders have different names."""

    director: str  # uuid
    deployment: str
    instance_group: str


def secret_name(holder: Holder, secrets: MachineSecrets) -> str:
    """The same for the same content, whichever Director computes it."""
    # As it is after a way through JSON, so that what was stored and read has the same name.
    content = json.dumps(json.loads(json.dumps(secrets.wire())), sort_keys=True, separators=(",", ":"))
    salt = json.dumps([holder.director, holder.deployment, holder.instance_group])
    return _name(salt.encode(), hashlib.sha256(content.encode()).digest())


@lru_cache(4096)  # a plan and the deploy that follows it compute the same
def _name(salt: bytes, content: bytes) -> str:
    made = hashlib.scrypt(content, salt=salt, n=_COST, r=8, p=1, maxmem=_MEMORY, dklen=16)
    return base32(int.from_bytes(made), INTENT_LENGTH)


def seal_secrets(key: PublicKey, name: str, deployment: str, secrets: MachineSecrets) -> str:
    from nacl.public import PublicKey as Box
    from nacl.public import SealedBox

    inside = json.dumps({"name": name, "deployment": deployment, **secrets.wire()}).encode()
    padded = inside + b" " * (-len(inside) % _BLOCK)
    return base64.b64encode(SealedBox(Box(key.raw)).encrypt(padded)).decode()


def open_secrets(key: Key, name: str, deployment: str, sealed: str) -> MachineSecrets:
    """Refused if this key does not open them, or if they were sealed under another name or for another deployment."""
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey, SealedBox

    try:
        inside = json.loads(SealedBox(PrivateKey(key.private)).decrypt(base64.b64decode(sealed, validate=True)))
    except (CryptoError, ValueError, binascii.Error) as error:
        raise _refusal(deployment, "they were changed, or sealed to another key than their row says") from error
    if (inside["name"], inside["deployment"]) != (name, deployment):
        raise _refusal(deployment, f"they were sealed for deployment {inside['deployment']}, or for other contents")
    return MachineSecrets(inside["env"], inside["user_data"], inside["tags"])


def _refusal(deployment: str, why: str) -> Refused:
    return Refused(
        f"the sealed env and user_data of deployment {deployment} cannot be opened",
        why=why,
        remedy="deploy its manifest again, which seals them anew",
    )
