"""Rules inside one subnet: everything must lie in its range, and nothing may be claimed twice."""

from __future__ import annotations

from coterie.manifest.addresses import number, parse_span, span_of, text_of, usable
from coterie.manifest.rules.report import Report
from coterie.manifest.schema import CloudConfig, Subnet
from coterie.manifest.space import ranges_of
from coterie.manifest.spans import Ranges, Span
from coterie.manifest.tree import Loc

_LINK_LOCAL = span_of("fe80::/10")


def check_ranges(report: Report[CloudConfig], subnet: Subnet, loc: Loc) -> None:
    if subnet.range is None:
        report.add((*loc, "range"), "a subnet of a manual network has no range", "add range, as in range: 10.20.1.0/24")
        return
    _check_gateway(report, subnet, loc)
    _check_inside(report, subnet, loc, "reserved", Ranges([span_of(subnet.range)]))
    _check_inside(report, subnet, loc, "static", usable(subnet.range))
    _check_claims(report, subnet, loc)


def _check_gateway(report: Report[CloudConfig], subnet: Subnet, loc: Loc) -> None:
    if subnet.gateway is None:
        return
    address = Span(number(subnet.gateway), number(subnet.gateway))
    if not usable(str(subnet.range)).covers(address) and not _LINK_LOCAL.overlap(address):
        what = f"the gateway {subnet.gateway} is outside the range {subnet.range}"
        report.add((*loc, "gateway"), what, "use an address of the range that a machine can have", (*loc, "range"))


def _check_inside(report: Report[CloudConfig], subnet: Subnet, loc: Loc, field: str, room: Ranges) -> None:
    for i, text in enumerate(getattr(subnet, field)):
        if not room.covers(parse_span(text)):
            what = f"'{text}' is not inside the range {subnet.range}"
            remedy = f"use addresses from {text_of(room.spans[0].first)} to {text_of(room.spans[-1].last)}"
            report.add((*loc, field, i), what, remedy, (*loc, "range"))


def _check_claims(report: Report[CloudConfig], subnet: Subnet, loc: Loc) -> None:
    """A static address is assigned to a node, so it must not be reserved or used otherwise."""
    reserved = ranges_of(subnet.reserved)
    gateway = Ranges([parse_span(subnet.gateway)] if subnet.gateway else [])
    for i, text in enumerate(subnet.static):
        span, place = parse_span(text), (*loc, "static", i)
        taken = reserved.overlap(span)
        if taken:
            what = f"'{text}' is also reserved, from {text_of(taken.first)}"
            report.add(place, what, "take it out of either 'static' or 'reserved'", (*loc, "reserved"))
        if gateway.overlap(span):
            report.add(place, f"'{text}' holds the gateway", "leave the gateway's address out", (*loc, "gateway"))
