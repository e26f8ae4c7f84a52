"""Static addresses: as many as instances, each one offered by the cloud config, none used twice."""

from __future__ import annotations

from coterie.manifest.addresses import AddressList, parse_span, text_of
from coterie.manifest.rules.pair import Pair
from coterie.manifest.rules.zones import check_zones
from coterie.manifest.schema import GroupNetwork, InstanceGroup, Network
from coterie.manifest.space import SubnetSpace
from coterie.manifest.spans import Span
from coterie.manifest.tree import Loc

Claim = tuple[Span, Loc]


def check_statics(pair: Pair) -> None:
    claims: dict[str, list[Claim]] = {}
    for loc, group, attached, network in pair.attachments():
        if not attached.static_ips or network.type == "dynamic":
            continue
        _check_count(pair, loc, group, attached)
        for n, text in enumerate(attached.static_ips):
            place = (*loc, "static_ips", n)
            if pair.deployment.sound(place):
                claims.setdefault(network.name, []).append((parse_span(text), place))
                if network.type == "manual":
                    _check_one(pair, place, group, network, text)
    for found in claims.values():
        _check_twice(pair, found)
    check_zones(pair)


def _check_count(pair: Pair, loc: Loc, group: InstanceGroup, attached: GroupNetwork) -> None:
    count = AddressList.of(attached.static_ips).total
    if count != group.instances:
        what = f"{count:,} static IPs are given for {group.instances:,} instances"
        remedy = f"give exactly {group.instances:,}, or none"
        pair.deployment.add((*loc, "static_ips"), what, remedy, (*loc[:2], "instances"))


def _check_one(pair: Pair, loc: Loc, group: InstanceGroup, network: Network, text: str) -> None:
    span = parse_span(text)
    subnet = pair.space(network).holding(span.first)
    if subnet is None or span.last > subnet.span.last:
        what = f"'{text}' is outside the ranges of the network '{network.name}'"
        pair.deployment.add(loc, what, _offer(pair, network))
        return
    taken = subnet.reserved.overlap(span)
    if taken:
        what = f"'{text}' is reserved in the network '{network.name}', from {text_of(taken.first)}"
        pair.deployment.add(loc, what, f"use another address, or take it out of 'reserved' in {pair.config.file}")
    elif not subnet.static.covers(span):
        what = f"'{text}' is not among the static addresses of the network '{network.name}'"
        pair.deployment.add(loc, what, _offer(pair, network))
    _check_az(pair, loc, group, subnet, text)


def _check_az(pair: Pair, loc: Loc, group: InstanceGroup, subnet: SubnetSpace, text: str) -> None:
    if not any(subnet.serves(az) for az in group.azs) and all(az in pair.azs for az in group.azs):
        azs = ", ".join(sorted(subnet.azs))
        what = f"'{text}' is in a subnet of {azs}, where this instance group is not"
        pair.deployment.add(
            loc, what, f"use an address of {', '.join(group.azs)}, or add {azs} to azs", (*loc[:2], "azs")
        )


def _offer(pair: Pair, network: Network) -> str:
    offered = [text for subnet in network.subnets for text in subnet.static]
    if not offered:
        return f"add it to 'static' of a subnet of '{network.name}' in {pair.config.file}"
    return f"use an address of {', '.join(offered[:4])}, or add it to 'static' in {pair.config.file}"


def _check_twice(pair: Pair, claims: list[Claim]) -> None:
    claims.sort()
    held = claims[0]
    for claim in claims[1:]:
        overlap = held[0].overlap(claim[0])
        if overlap:
            earlier, later = sorted((held[1], claim[1]), key=_order)
            what = f"{text_of(overlap.first)} is used twice, first in line {pair.deployment.line(earlier)}"
            pair.deployment.add(later, what, "give each instance an address of its own")
        if claim[0].last > held[0].last:
            held = claim


def _order(loc: Loc) -> tuple[int, ...]:
    return tuple(step for step in loc if isinstance(step, int))
