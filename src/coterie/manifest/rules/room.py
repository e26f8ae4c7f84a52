"""There must be an address for each instance: in every manual network, and in each az's part of it."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.manifest.rules.pair import Pair
from coterie.manifest.schema import InstanceGroup, Network
from coterie.manifest.space import SubnetSpace, even_shares
from coterie.manifest.tree import Loc

Subnets = frozenset[int]


def check_room(pair: Pair) -> None:
    needs: dict[str, dict[Subnets, int]] = {}
    for loc, group, attached, network in pair.attachments():
        if network.type == "manual" and not attached.static_ips:
            _add(pair, loc, group, network, needs.setdefault(network.name, {}))


def _add(pair: Pair, loc: Loc, group: InstanceGroup, network: Network, needs: dict[Subnets, int]) -> None:
    """Count the group in; report it once if it is the one for which the addresses no longer suffice."""
    short = None
    for where, count in _shares(pair, group, network):
        before = needs.get(where, 0)
        needs[where] = before + count
        free = sum(subnet.free.count for subnet in pair.space(network).subnets if subnet.index in where)
        if before <= free < needs[where]:
            short = short or f"{needs[where]:,} addresses are needed in {_words(network, where)}, but {free:,} are free"
    if short:
        remedy = f"use fewer instances, or a larger range in {pair.config.file}"
        pair.deployment.add((*loc[:2], "instances"), short, remedy, (*loc, "name"), (*loc[:2], "azs"))


def _shares(pair: Pair, group: InstanceGroup, network: Network) -> Iterator[tuple[Subnets, int]]:
    """Subnets that can serve → how many instances they must serve, first az by az, then all together."""
    subnets = pair.space(network).subnets
    shares: dict[Subnets, int] = {}
    # Static addresses elsewhere decide the az of a node, so an even spread cannot be assumed then.
    if not any(attached.static_ips for attached in group.networks):
        for az, count in zip(group.azs, even_shares(group.instances, len(group.azs)), strict=True):
            where = _serving(subnets, [az])
            shares[where] = shares.get(where, 0) + count
    everywhere = _serving(subnets, group.azs)
    if everywhere not in shares:
        shares[everywhere] = group.instances
    # An az that no subnet serves is another rule's to report.
    return ((where, count) for where, count in shares.items() if where)


def _serving(subnets: list[SubnetSpace], azs: list[str] | tuple[str, ...]) -> Subnets:
    return frozenset(subnet.index for subnet in subnets if any(subnet.serves(az) for az in azs))


def _words(network: Network, where: Subnets) -> str:
    if len(where) == len(network.subnets):
        return f"the network '{network.name}'"
    ranges = ", ".join(str(network.subnets[index].range) for index in sorted(where))
    return f"{ranges} of the network '{network.name}'"
