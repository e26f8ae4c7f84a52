"""Rules about security groups and what they let through."""

from __future__ import annotations

from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Deployment, SecurityRule
from coterie.manifest.tree import Loc


def check_security(report: Report[Deployment]) -> None:
    wanted = report.value
    known = {spec.name: None for spec in wanted.security_groups}
    known |= {name: None for group in wanted.instance_groups for name in group.security_groups}
    report.unique(
        ((("security_groups", i, "name"), spec.name) for i, spec in enumerate(wanted.security_groups)),
        "security group",
    )
    for i, group in enumerate(wanted.instance_groups):
        loc: Loc = ("instance_groups", i, "security_groups")
        report.unique((((*loc, n), name) for n, name in enumerate(group.security_groups)), "security group")
    for i, spec in enumerate(wanted.security_groups):
        if spec.adopt and spec.rules is not None:
            what = f"the security group '{spec.name}' is adopted, and has rules here"
            report.add(("security_groups", i, "rules"), what, "remove the rules: an adopted group keeps its own")
        for n, rule in enumerate(spec.rules or ()):
            _check_rule(report, rule, ("security_groups", i, "rules", n), known)


def _check_rule(report: Report[Deployment], rule: SecurityRule, loc: Loc, known: dict[str, None]) -> None:
    if rule.cidr and rule.group:
        report.add((*loc, "group"), "a rule has both 'cidr' and 'group'", "keep one of the two")
    if not rule.cidr and not rule.group:
        what = "a rule has neither 'cidr' nor 'group'"
        report.add((*loc, "cidr"), what, "add cidr, as in cidr: 10.0.0.0/8", (*loc, "group"))
    if rule.group and rule.group not in known and report.names_all("security_groups"):
        remedy = report.hints.remedy(rule.group, known, "security groups that this manifest names")
        report.add((*loc, "group"), f"no security group is named '{rule.group}'", remedy)
    _check_ports(report, rule, loc)


def _check_ports(report: Report[Deployment], rule: SecurityRule, loc: Loc) -> None:
    has_ports = rule.protocol in ("tcp", "udp")
    if has_ports and rule.ports is None:
        what = f"a rule for {rule.protocol} has no ports"
        report.add((*loc, "ports"), what, "add ports, as in ports: 443, or use protocol: any", (*loc, "protocol"))
    if not has_ports and rule.ports is not None:
        what = f"a rule for {rule.protocol} cannot have ports"
        report.add((*loc, "ports"), what, "remove them, or use protocol: tcp or udp", (*loc, "protocol"))
