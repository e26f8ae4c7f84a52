"""How people and programs log in to nodes. Coterie itself never does; `coterie ssh` and its relatives read this."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import Name, TypeWords, Whole, refuse

# These words become arguments of ssh and lines of its settings: no blanks, and nothing that begins like an option.
_WORD = re.compile(r"[A-Za-z0-9_~/][A-Za-z0-9_.@:/,\[\]+~-]{0,254}")


def _word(value: Any) -> str:
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    raise refuse("it cannot be an argument of ssh", "write it without blanks and quotes, and not with a '-' in front")


Word = Annotated[str, PlainValidator(_word), TypeWords("text")]


class Ssh(Part):
    """How to log in to nodes: read by `coterie ssh`, `ssh-config` and `inventory`. Coterie itself never logs in."""

    user: Word | None = Field(None, description="The user; default: that of your ssh.", examples=["debian"])
    port: Whole = Field(22, ge=1, le=65_535, description="The port that sshd listens on.", examples=[22])
    jump_host: Word | None = Field(
        None, description="The host to go through, as ssh's ProxyJump takes it.", examples=["ops@bastion.example"]
    )
    identity_file: Word | None = Field(
        None,
        description="The private key, on the machine of the user; default: those of your ssh.",
        examples=["~/.ssh/kafka"],
    )
    network: Name | None = Field(
        None, description="The network whose address is used; default: the first of the node.", examples=["default"]
    )
