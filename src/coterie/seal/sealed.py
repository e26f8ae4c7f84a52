"""Sealed properties: `{"sealed": "coterie-sealed-1:GROUP:KEY:TEXT"}`. The public key is enough to make them.

A cloud with several conductor groups has a list of such texts: a box for each group.
The cloud's name, driver and group are sealed in with the properties, so that they cannot be used for another cloud.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
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


def join(boxes: Sequence[Properties]) -> dict[str, Any]:
    """Several boxes of the same properties as one."""
    texts = [box[SEALED] for box in boxes]
    return {SEALED: texts[0] if len(texts) == 1 else texts}


def boxes(properties: Properties) -> dict[Address, str]:
    """Each box that they are sealed in, by the group and key that it is sealed to; none for plain properties."""
    found = properties.get(SEALED) if len(properties) == 1 else None
    texts = found if isinstance(found, list) else [found]
    parts = [_parts(text) for text in texts]
    if not all(parts):
        return {}
    return {Address(one[1], one[2]): text for one, text in zip(parts, texts, strict=True)}


def unseal(key: Key, cloud: str, driver: str, properties: Properties) -> dict[str, Any]:
    """The properties, if this key opens one of the boxes and it was sealed for this cloud and driver."""
    sealed = boxes(properties)
    if not sealed:
        return dict(properties)
    where = next((one for one in sealed if one.key_id == key.public.id), next(iter(sealed)))
    inside = json.loads(_decrypt(key, cloud, _parts(sealed[where])[3]))
    if {name: inside[name] for name in ("cloud", "driver", "group")} != _binding(Purpose(cloud, driver, where.group)):
        raise Refused(
            f"the sealed properties of cloud {cloud} are not meant for it",
            why=f"they were sealed for cloud {inside['cloud']} with driver {inside['driver']}",
            remedy="write its properties in plain into the cloud config and set it again: coterie clouds set FILE",
        )
    found: dict[str, Any] = inside["properties"]
    return found


def _parts(text: Any) -> list[str]:
    """Form, group, key and what is sealed; empty for any other text."""
    parts = text.split(":") if isinstance(text, str) else []
    return parts if len(parts) == 4 and parts[0] == _FORM else []


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
