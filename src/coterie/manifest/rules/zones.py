"""Where a node has static addresses in several networks, they must leave it an az to be in."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from coterie.manifest.addresses import parse_span
from coterie.manifest.rules.pair import Pair
from coterie.manifest.schema import GroupNetwork, InstanceGroup, Network
from coterie.manifest.tree import Loc

Attached = tuple[GroupNetwork, Network]
Steps = tuple[list[int], list[set[str]]]


def check_zones(pair: Pair) -> None:
    found: dict[Loc, tuple[InstanceGroup, list[Attached]]] = {}
    for loc, group, attached, network in pair.attachments():
        if attached.static_ips and network.type == "manual":
            found.setdefault(loc[:2], (group, []))[1].append((attached, network))
    for loc, (group, attachments) in found.items():
        if len(attachments) > 1 and pair.deployment.sound((*loc, "networks")):
            _check(pair, loc, group, attachments)


def _check(pair: Pair, loc: Loc, group: InstanceGroup, attachments: list[Attached]) -> None:
    """Azs change only where some range begins, so only those instances are looked at."""
    steps = [_steps(pair, group, attached, network) for attached, network in attachments]
    for instance in sorted({start for starts, _ in steps for start in starts}):
        possible = [azs[bisect_right(starts, instance) - 1] for starts, azs in steps]
        if not set(group.azs).intersection(*possible):
            what = f"the static IPs of {group.name}/{instance} are in different azs"
            remedy = "order static_ips so that each instance's addresses are in one az"
            pair.deployment.add((*loc, "networks"), what, remedy)
            return


def _steps(pair: Pair, group: InstanceGroup, attached: GroupNetwork, network: Network) -> Steps:
    """The first instance of each range, and the azs that it can be in."""
    spans = [parse_span(text) for text in attached.static_ips]
    starts = [0, *accumulate(span.count for span in spans)][:-1]
    held = [pair.space(network).holding(span.first) for span in spans]
    return starts, [{az for az in group.azs if subnet is None or subnet.serves(az)} for subnet in held]
