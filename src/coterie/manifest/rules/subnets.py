"""Rules about the networks of a cloud config: which fields a type has, and how address ranges must lie."""

from __future__ import annotations

from coterie.manifest.rules.ranges import check_ranges
from coterie.manifest.rules.report import Report
from coterie.manifest.schema import CloudConfig, Network, Subnet
from coterie.manifest.space import network_space
from coterie.manifest.tree import Loc


def check_networks(report: Report[CloudConfig]) -> None:
    azs = {az.name: None for az in report.value.azs}
    for i, network in enumerate(report.value.networks):
        loc: Loc = ("networks", i)
        for n, subnet in enumerate(network.subnets):
            _check_azs(report, subnet, (*loc, "subnets", n), azs)
        if report.sound((*loc, "type")):
            _check_type(report, network, loc)
        if report.sound((*loc, "type")) and network.type == "manual":
            _check_manual(report, network, loc)


def _check_manual(report: Report[CloudConfig], network: Network, loc: Loc) -> None:
    for n, subnet in enumerate(network.subnets):
        check_ranges(report, subnet, (*loc, "subnets", n))
    _check_overlaps(report, network, loc)


def _check_type(report: Report[CloudConfig], network: Network, loc: Loc) -> None:
    if network.type == "manual":
        if not network.subnets:
            report.add((*loc, "subnets"), "a manual network has no subnets", "add a subnet with a range")
        _refuse(report, network, loc, ("dns", "cloud_properties"), "belongs to the subnets of a manual network")
        return
    for n, subnet in enumerate(network.subnets):
        within = (*loc, "subnets", n)
        _refuse(report, subnet, within, ("range", "gateway", "reserved", "static"), "is for manual networks only")
    if network.type == "vip":
        _refuse(report, network, loc, ("subnets", "dns"), "has no meaning in a vip network")


def _refuse(report: Report[CloudConfig], part: Network | Subnet, loc: Loc, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in part.model_fields_set:
            remedy = "move it there" if "belongs" in why else "remove it, or change the network's type"
            report.add((*loc, name), f"'{name}' {why}", remedy)


def _check_azs(report: Report[CloudConfig], subnet: Subnet, loc: Loc, azs: dict[str, None]) -> None:
    if subnet.az and subnet.azs:
        report.add((*loc, "az"), "a subnet has both 'az' and 'azs'", "keep one of the two")
    named = [((*loc, "azs", n), az) for n, az in enumerate(subnet.azs)]
    report.unique(named, "az")
    for place, az in [*named, ((*loc, "az"), subnet.az)]:
        if az and az not in azs and report.names_all("azs"):
            report.add(place, f"no az is named '{az}'", report.hints.remedy(az, azs, "azs"))


def _check_overlaps(report: Report[CloudConfig], network: Network, loc: Loc) -> None:
    held = None
    for subnet in network_space(network).subnets:
        if held and subnet.span.first <= held.span.last:
            later, earlier = max(subnet.index, held.index), min(subnet.index, held.index)
            first: Loc = (*loc, "subnets", earlier, "range")
            what = f"the range overlaps that of the subnet in line {report.line(first)}"
            report.add((*loc, "subnets", later, "range"), what, "use ranges that have no address in common", first)
        if held is None or subnet.span.last > held.span.last:
            held = subnet
