"""Sealed properties: `{"sealed": "coterie-sealed-1:GROUP:KEY:TEXT"}`. The public key is enough to make one.

The cloud's name, driver and group are sealed in with the properties, so that they cannot be used for another cloud.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.errors import Refused
from coterie.manifest import SEALED
from coterie.seal.key import Key, PublicKey

Properties = Mapping[str, Any]
_FORM = "coterie-sealed-1"
_BLOCK = 256  # lengths are rounded up, so that they tell little of a password


@dataclass(frozen=True, slots=True)
class Address:
    """What is readable on the outside."""

    group: str
    key_id: str


@dataclass(frozen=True, slots=True)
class Purpose:
    """What the properties are for; sealed in with them."""

    cloud: str
    driver: str
    group: str


def seal(key: PublicKey, purpose: Purpose, properties: Properties) -> dict[str, str]:
    from nacl.public import PublicKey as Box
    from nacl.public import SealedBox

    inside = json.dumps({**_binding(purpose), "properties": dict(properties)}).encode()
    padded = inside + b" " * (-len(inside) % _BLOCK)
    text = base64.b64encode(SealedBox(Box(key.raw)).encrypt(padded)).decode()
    return {SEALED: f"{_FORM}:{purpose.group}:{key.id}:{text}"}


def address(properties: Properties) -> Address | None:
    """The group and key that they are sealed to; None for plain properties."""
    parts = _parts(properties)
    return Address(parts[1], parts[2]) if parts else None


def unseal(key: Key, cloud: str, driver: str, properties: Properties) -> dict[str, Any]:
    """The properties, if this key opens them and they were sealed for this cloud and driver."""
    parts = _parts(properties)
    if parts is None:
        return dict(properties)
    inside = json.loads(_decrypt(key, cloud, parts[3]))
    if {name: inside[name] for name in ("cloud", "driver", "group")} != _binding(Purpose(cloud, driver, parts[1])):
        raise Refused(
            f"the sealed properties of cloud {cloud} are not meant for it",
            why=f"they were sealed for cloud {inside['cloud']} with driver {inside['driver']}",
            remedy="write its properties in plain into the cloud config and set it again: coterie clouds set FILE",
        )
    found: dict[str, Any] = inside["properties"]
    return found


def _parts(properties: Properties) -> list[str] | None:
    text = properties.get(SEALED) if len(properties) == 1 else None
    if not isinstance(text, str) or not text.startswith(f"{_FORM}:"):
        return None
    parts = text.split(":")
    return parts if len(parts) == 4 else None


def _binding(purpose: Purpose) -> dict[str, str]:
    return {"cloud": purpose.cloud, "driver": purpose.driver, "group": purpose.group}


def _decrypt(key: Key, cloud: str, text: str) -> bytes:
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey, SealedBox

    try:
        return SealedBox(PrivateKey(key.private)).decrypt(base64.b64decode(text, validate=True))
    except (CryptoError, ValueError, binascii.Error) as error:
        raise Refused(
            f"the sealed properties of cloud {cloud} cannot be opened",
            why="they were changed, or sealed to another key than they say",
            remedy="write its properties in plain into the cloud config and set it again: coterie clouds set FILE",
        ) from error
