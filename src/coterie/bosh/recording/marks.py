"""Marks that this program makes, because a BOSH Director sends none; they are recorded in its own ledger."""

from __future__ import annotations

import hashlib
from typing import Any

from coterie.cpi.contract import Mark
from coterie.ids import INTENT_LENGTH, Ids, base32


class OwnMark(Mark):
    """Made here, so its object is ours to remember. A mark that came with the request is remembered by its sender."""

    __slots__ = ()


def fresh(method: str, arguments: list[Any], context: dict[str, Any]) -> OwnMark:
    director = str(context["director_uuid"])
    if method == "create_vm":
        return vm_mark(director, str(arguments[0]), 0)
    return OwnMark(director, Ids().intent())


def vm_mark(director_uuid: str, agent_id: str, generation: int) -> OwnMark:
    """The same for every process that is asked for this machine; `generation` counts those that had to be removed."""
    seed = f"{director_uuid}\n{agent_id}\n{generation}".encode()
    number = int.from_bytes(hashlib.sha256(seed).digest()[:17], "big")
    return OwnMark(director_uuid, base32(number, INTENT_LENGTH))
