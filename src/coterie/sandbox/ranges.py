"""Address ranges as texts and as networks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from coterie.sandbox.errors import BadRequest

Range = IPv4Network | IPv6Network
_SPACE = IPv4Network("10.128.0.0/9")  # where networks are cut from that name no range
_SMALLEST_BITS = 30


@lru_cache(maxsize=1024)
def read_range(text: str) -> Range:
    try:
        return ip_network(text)
    except ValueError as error:
        raise BadRequest(f"range {text!r} is no network", why=str(error), remedy="write it like 10.1.0.0/24") from None


def free_range(bits: int, taken: Iterable[str]) -> Range:
    """A range of this length that overlaps none of those taken."""
    if not _SPACE.prefixlen <= bits <= _SMALLEST_BITS:
        raise BadRequest(
            f"a network of {bits} bits cannot be made", remedy=f"ask for {_SPACE.prefixlen} to {_SMALLEST_BITS} bits"
        )
    others = [other for other in map(read_range, taken) if isinstance(other, IPv4Network)]
    for net in _SPACE.subnets(new_prefix=bits):
        if not any(net.overlaps(other) for other in others):
            return net
    raise BadRequest(f"no free range of {bits} bits is left in {_SPACE}", remedy="name a range")
