"""Fields that hold IP addresses: one, a range, or a block; IPv4 and IPv6."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Strict

from coterie.manifest.addresses import number, parse_cidr, parse_span
from coterie.manifest.schema.words import TypeWords, refuse


def _address(value: str) -> str:
    try:
        number(value)
    except ValueError as error:
        raise refuse(str(error), "write an IP address such as 10.20.0.1 or 2001:db8::1") from None
    return value


def _range(value: str) -> str:
    try:
        parse_span(value)
    except ValueError as error:
        raise refuse(str(error), "write an address, a range such as 10.20.0.2 - 10.20.0.9, or a block") from None
    return value


def _block(value: str) -> str:
    try:
        parse_cidr(value)
    except ValueError as error:
        raise refuse(str(error), "write an address block such as 10.20.0.0/16 or 2001:db8::/64") from None
    return value


Address = Annotated[str, Strict(), AfterValidator(_address), TypeWords("IP address")]
AddressRange = Annotated[str, Strict(), AfterValidator(_range), TypeWords("IP address, range or block")]
AddressBlock = Annotated[str, Strict(), AfterValidator(_block), TypeWords("address block (CIDR)")]
