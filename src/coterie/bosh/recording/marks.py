"""Marks that this program generates, because a BOSH Director sends none; they are recorded in the local ledger."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from coterie.cpi.contract import Mark
from coterie.ids import INTENT_LENGTH, Ids, base32

_TAME = re.compile(r"[0-9A-Za-z._-]{0,36}$")
_CALLERS = "6c1e6a0f-8a53-5f0e-9d0b-1b5c3a8e7f42"


class OwnMark(Mark):
    """Generated here, so we record its object. A mark that came with the request is recorded by its sender."""

    __slots__ = ()


def director_id(given: object) -> str:
    """The caller's uuid as it goes into marks and the ledger. A caller may send any text: one that clouds could not
    take as a tag counts by a uuid that follows from it."""
    text = str(given or "")
    if _TAME.match(text):
        return text
    import uuid  # slow to import

    return str(uuid.uuid5(uuid.UUID(_CALLERS), text))


def new_mark(method: str, arguments: list[Any], context: dict[str, Any]) -> OwnMark:
    director = director_id(context["director_uuid"])
    if method == "create_vm":
        return vm_mark(director, str(arguments[0]), 0)
    return OwnMark(director, Ids().intent())


def vm_mark(director_uuid: str, agent_id: str, generation: int) -> OwnMark:
    """The same in every process that creates this machine; `generation` counts the machines removed before it."""
    seed = f"{director_uuid}\n{agent_id}\n{generation}".encode()
    number = int.from_bytes(hashlib.sha256(seed).digest()[:17], "big")
    return OwnMark(director_uuid, base32(number, INTENT_LENGTH))
