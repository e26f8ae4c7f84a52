"""The addresses of networks, measured once: which subnet an address is in, and how many are left to give."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from coterie.manifest.addresses import free_addresses, parse_span, span_of
from coterie.manifest.schema import Network, Subnet
from coterie.manifest.spans import Ranges, Span


@dataclass(frozen=True, slots=True)
class SubnetSpace:
    """A subnet of a manual network. `azs` empty: it serves all of them."""

    index: int
    span: Span
    reserved: Ranges
    static: Ranges
    free: Ranges
    azs: frozenset[str]

    def serves(self, az: str) -> bool:
        return not self.azs or az in self.azs


class NetworkSpace:
    """The subnets of one network, found by address in O(log n)."""

    def __init__(self, subnets: Iterable[SubnetSpace]) -> None:
        self.subnets = sorted(subnets, key=lambda subnet: subnet.span)
        self._firsts = [subnet.span.first for subnet in self.subnets]

    def holding(self, address: int) -> SubnetSpace | None:
        index = bisect_right(self._firsts, address) - 1
        found = self.subnets[index] if index >= 0 else None
        return found if found and address <= found.span.last else None


def network_space(network: Network) -> NetworkSpace:
    """The space of a manual network; subnets without a range are left out."""
    return NetworkSpace(_subnet(i, subnet) for i, subnet in enumerate(network.subnets) if subnet.range)


def azs_of(subnet: Subnet) -> tuple[str, ...]:
    """The azs a subnet names, by either of its two fields; none means all."""
    return subnet.azs or ((subnet.az,) if subnet.az else ())


def ranges_of(texts: Iterable[str]) -> Ranges:
    return Ranges(parse_span(text) for text in texts)


def _subnet(index: int, subnet: Subnet) -> SubnetSpace:
    block = str(subnet.range)
    return SubnetSpace(
        index=index,
        span=span_of(block),
        reserved=ranges_of(subnet.reserved),
        static=ranges_of(subnet.static),
        free=free_addresses(block, subnet.gateway, subnet.reserved, subnet.static),
        azs=frozenset(azs_of(subnet)),
    )


def even_shares(instances: int, azs: int) -> list[int]:
    """An even share for each az; what does not divide goes to the first ones."""
    share, rest = divmod(instances, azs)
    return [share + (index < rest) for index in range(azs)]
