"""IP addresses as numbers, so that ranges of any size cost the same. IPv4 and IPv6; no names are looked up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import accumulate
from typing import overload

from coterie.manifest.spans import Ranges, Span

# The IP version sits above the 128 bits of the address: one number line holds both families, never mixed.
_VERSION_BIT = 128
_ADDRESS_BITS = (1 << _VERSION_BIT) - 1


def number(text: str) -> int:
    """An address as a number; a ValueError describes what is wrong with it."""
    if "%" in text:
        raise ValueError(f"'{text}' names a zone, which is not part of an address")
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IP address") from None
    return (address.version << _VERSION_BIT) | int(address)


def text_of(address: int) -> str:
    """The canonical text of a number made by `number`."""
    kind = IPv4Address if address >> _VERSION_BIT == 4 else IPv6Address
    return str(kind(address & _ADDRESS_BITS))


def parse_cidr(text: str) -> IPv4Network | IPv6Network:
    """A block such as `10.0.0.0/8`; a ValueError describes what is wrong with it."""
    if "/" not in text or "%" in text:
        raise ValueError(f"'{text}' is not an address block")
    try:
        block = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"'{text}' is not an address block") from None
    if number(text.split("/")[0].strip()) & _ADDRESS_BITS != int(block.network_address):
        raise ValueError(f"'{text}' begins inside the block {block}")
    return block


def parse_span(text: str) -> Span:
    """`a`, `a - b`, `a-b` or `a/n` as the numbers from first to last."""
    if "/" in text:
        return span_of(text)
    first, dash, last = (part.strip() for part in text.partition("-"))
    span = Span(number(first), number(last if dash else first))
    if span.first >> _VERSION_BIT != span.last >> _VERSION_BIT:
        raise ValueError(f"'{text}' mixes IPv4 and IPv6")
    if span.last < span.first:
        raise ValueError(f"'{text}' ends before it begins")
    return span


def span_of(block: str) -> Span:
    """All addresses of a block, the first and last one too."""
    parsed = parse_cidr(block.strip())
    above = parsed.version << _VERSION_BIT
    return Span(above | int(parsed.network_address), above | int(parsed.broadcast_address))


def usable(block: str) -> Ranges:
    """The addresses of a block that a machine can have: not the network's own, nor an IPv4 broadcast address."""
    span = span_of(block)
    if span.count <= 2:
        return Ranges([span])
    is_v4 = span.first >> _VERSION_BIT == 4
    return Ranges([Span(span.first + 1, span.last - 1 if is_v4 else span.last)])


def free_addresses(block: str, gateway: str | None, *excluded: Iterable[str]) -> Ranges:
    """What may be given out in a block; `excluded` are lists of ranges (reserved, static)."""
    away = [parse_span(text) for texts in excluded for text in texts]
    if gateway:
        away.append(parse_span(gateway))
    return usable(block).minus(Ranges(away))


def each(free: Ranges, taken: Container[int] = ()) -> Iterator[str]:
    """Lazily, the texts of the free addresses that are not taken, in order. Keep the iterator: it never looks back."""
    return (text_of(address) for address in free if address not in taken)


def netmask(block: str) -> str:
    return str(parse_cidr(block).netmask)


@dataclass(frozen=True, slots=True)
class AddressList(Sequence[str]):
    """Addresses in the order written, from ranges that are never expanded. `total` may exceed what `len` can say."""

    spans: tuple[Span, ...] = ()
    ends: tuple[int, ...] = ()  # how many addresses the spans hold up to and including each

    @staticmethod
    def of(texts: Iterable[str]) -> AddressList:
        spans = tuple(parse_span(text) for text in texts)
        return AddressList(spans, tuple(accumulate(span.count for span in spans)))

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self.total))]
        wanted = index + self.total if index < 0 else index
        if not 0 <= wanted < self.total:
            raise IndexError(index)
        holder = bisect_right(self.ends, wanted)
        return text_of(self.spans[holder].last + 1 - (self.ends[holder] - wanted))
