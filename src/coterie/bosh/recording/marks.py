"""Marks that this program generates, because a BOSH Director sends none; they are recorded in the local ledger."""

from __future__ import annotations

import hashlib
from typing import Any

from coterie.cpi.contract import Mark
from coterie.ids import INTENT_LENGTH, Ids, base32


class OwnMark(Mark):
    """Generated here, so we record its object. A mark that came with the request is recorded by its sender."""

    __slots__ = ()


def new_mark(method: str, arguments: list[Any], context: dict[str, Any]) -> OwnMark:
    director = str(context["director_uuid"])
    if method == "create_vm":
        return vm_mark(director, str(arguments[0]), 0)
    return OwnMark(director, Ids().intent())


def vm_mark(director_uuid: str, agent_id: str, generation: int) -> OwnMark:
    """The same in every process that creates this machine; `generation` counts the machines removed before it."""
    seed = f"{director_uuid}\n{agent_id}\n{generation}".encode()
    number = int.from_bytes(hashlib.sha256(seed).digest()[:17], "big")
    return OwnMark(director_uuid, base32(number, INTENT_LENGTH))
