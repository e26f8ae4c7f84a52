"""Security groups: those of the deployment with their rules, and those of others that it adopts."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, Strict

from coterie.manifest.addresses import parse_cidr
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import CloudName, Flag, TypeWords, refuse

_PORTS = re.compile(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", re.ASCII)


def _ports(value: Any) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    found = _PORTS.fullmatch(text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= 65_535:
        raise refuse("it is not a port or a range of ports", 'write a port such as 443, or a range such as "8000-8080"')
    return str(first) if first == last else f"{first}-{last}"


def _cidr(value: str) -> str:
    try:
        return str(parse_cidr(value))
    except ValueError as error:
        raise refuse(str(error), "write an address block such as 10.0.0.0/8 or 2001:db8::/32") from None


Cidr = Annotated[str, Strict(), AfterValidator(_cidr), TypeWords("address block (CIDR)")]
Ports = Annotated[str, PlainValidator(_ports), TypeWords("port or range of ports")]


class SecurityRule(Part):
    """Traffic that a security group lets through. Give either `cidr` or `group`."""

    protocol: Literal["tcp", "udp", "icmp", "any"] = Field(description="The protocol let through.", examples=["tcp"])
    ports: Ports | None = Field(
        None, description="A port or a range of ports; needed for `tcp` and `udp`.", examples=["9092-9094"]
    )
    cidr: Cidr | None = Field(None, description="The addresses at the other end, as a block.", examples=["10.0.0.0/8"])
    group: CloudName | None = Field(
        None, description="The security group at the other end: one that this manifest names.", examples=["kafka"]
    )
    direction: Literal["ingress", "egress"] = Field(
        "ingress", description="`ingress`: to the node. `egress`: from the node.", examples=["ingress"]
    )


class SecurityGroupSpec(Part):
    """A security group of the deployment with its rules, or one of an operator or another deployment to adopt."""

    name: CloudName = Field(description="The name of the security group in the cloud.", examples=["kafka"])
    adopt: Flag = Field(
        False,
        description="Use the security group of this name that an operator or another deployment made. It is joined and "
        "left, never changed or deleted. Without it, a name that is taken is an error. A deployment of a team may "
        "adopt those of the same team, and those in `shared_security_groups` of the cloud config.",
        examples=[True],
    )
    rules: tuple[SecurityRule, ...] | None = Field(
        None,
        description="All that the group lets through; a deploy adds and removes rules until the cloud has just these. "
        "Empty: nothing comes in. Without any egress rule, everything goes out. Left out: the rules in the cloud are "
        "left as they are.",
    )
