"""An instance group's networks must reach all its azs, and say which of them gives dns and gateway."""

from __future__ import annotations

from coterie.manifest.rules.pair import Pair
from coterie.manifest.schema import GroupNetwork, InstanceGroup, Network
from coterie.manifest.space import azs_of
from coterie.manifest.tree import Loc


def check_attachments(pair: Pair) -> None:
    for loc, group, attached, network in pair.attachments():
        _check_reach(pair, loc, group, network)
        _check_type(pair, loc, attached, network)
    for loc, group in pair.groups():
        _check_defaults(pair, loc, group)


def _check_reach(pair: Pair, loc: Loc, group: InstanceGroup, network: Network) -> None:
    served = [azs_of(subnet) for subnet in network.subnets]
    if not all(served) or not served:  # a subnet without azs serves all, as does a network without subnets
        return
    reached = {az for azs in served for az in azs}
    for n, az in enumerate(group.azs):
        if az in pair.azs and az not in reached:
            what = f"the network '{network.name}' has no subnet in the az '{az}'"
            remedy = f"add {az} to a subnet of '{network.name}' in {pair.config.file}, or take it out of this group"
            pair.deployment.add((*loc, "name"), what, remedy, (*loc[:2], "azs", n))


def _check_type(pair: Pair, loc: Loc, attached: GroupNetwork, network: Network) -> None:
    place = (*loc, "static_ips")
    if network.type == "dynamic" and attached.static_ips:
        what = f"the network '{network.name}' is dynamic: the cloud chooses its addresses"
        pair.deployment.add(place, what, "remove static_ips, or use a manual network", (*loc, "name"))
    if network.type == "vip" and not attached.static_ips:
        what = f"the network '{network.name}' is a vip network, and no addresses are given"
        pair.deployment.add(place, what, "add static_ips, one for each instance", (*loc, "name"))


def _check_defaults(pair: Pair, loc: Loc, group: InstanceGroup) -> None:
    """Vip addresses belong to no interface, so they need another network and cannot be the default."""
    known = [pair.networks.get(network.name, (0, None))[1] for network in group.networks]
    if not all(known) or not pair.deployment.sound((*loc, "networks")):
        return
    real = [n for n, network in enumerate(known) if network and network.type != "vip"]
    if not real:
        pair.deployment.add((*loc, "networks"), "all networks are vip networks", "add a manual or dynamic network")
    if len(real) > 1:
        given = {word for network in group.networks for word in network.default}
        for word in sorted({"dns", "gateway"} - given):
            what = f"none of the {len(real)} networks is the default for {word}"
            pair.deployment.add((*loc, "networks"), what, f"add default: [{word}] to one of them")
