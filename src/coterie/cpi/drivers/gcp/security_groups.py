"""A security group is a network tag, and firewall rules for what bears it: one that is there as long as the group, has
its name and mark and denies what comes in, and one for each rule, named after what it says. Names follow from the
manifest's words, so all of them are found without a list that could lag, and are made once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from coterie.cpi.contract import CpiError, Mark, NotSupported, SecurityRule
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.gcp.client import Client
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.marks import Row, cid_of, describe_mark, mark_of, words_of
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.ids import director_prefix
from coterie.slotted import dataclass

NAME = "coterie-name"  # of a security group, as manifests call it
_PREFIX, _LENGTH, _DIGEST = "cot-sg-", 44, 16
_ALLOWED, _DENIED, _RULES = 1000, 1001, 100
_DENY_OUT = "deny-out"
_PROTOCOLS = {"any": "all", "tcp": "tcp", "udp": "udp", "icmp": "icmp", "esp": "esp", "ah": "ah", "sctp": "sctp"}
_ICMP_V6 = "58"
_BOTH = ("IPv4", "IPv6")


@dataclass(frozen=True, slots=True)
class Firewalls:
    """Fills the kit's `SecurityGroupCloud`. All are in the network `default_network`."""

    client: Client
    parts: Parts
    machines: Machines
    egress_needs_rules: ClassVar[bool] = False

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By its word in manifests; else an operator's firewall rule that is named like its tag."""
        ours = self.read(self._name(name))
        theirs = None if ours else self.read(name)
        return ours or (theirs if theirs and name in (theirs.row.get("targetTags") or ()) else None)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.client.get(self.client.firewall(cid))
        return self.existing(row, self.list_rows(cid)) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        rows = self.list_rows(f"{_PREFIX}{director_prefix(mark.director)}")
        found = [self.existing(row, rows) for row in self.heads(rows) if mark_of(row) == mark]
        return [one for one in found if one.mark]

    def heads(self, rows: Sequence[Row]) -> list[Row]:
        """Of these rows the groups, and rules that have lost theirs: each of them is all that is left of a group."""
        groups = {str(row["name"]) for row in rows if is_group(row)}
        own = [row for row in rows if str(row["name"]).startswith(_PREFIX)]
        lost = {
            group
            for group in {_group_of(row) for row in own} - groups
            if self.client.get(self.client.firewall(group)) is None
        }
        return [row for row in own if is_group(row) or _group_of(row) in lost]

    def list_rows(self, prefix: str) -> list[Row]:
        """Firewall rules whose name begins so."""
        collection = self.client.firewall("x").removesuffix("/x")
        rows = self.client.list_all("firewalls", collection, filter=f"name eq {prefix}.*")
        return [row for row in rows if str(row["name"]).startswith(prefix)]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        if len(rules) > _RULES:
            raise NotSupported(f"a security group has {len(rules)} rules", remedy=f"use at most {_RULES}")
        for rule in rules:
            if rule.protocol not in _PROTOCOLS or (rule.protocol == "icmp" and rule.ports):
                words = ", ".join(_PROTOCOLS)
                raise NotSupported(
                    f"Google's firewalls have no rule {rule}", remedy=f"use {words}; icmp without type and code"
                )
            if rule.group and rule.direction == "egress":
                raise NotSupported(
                    f"Google's firewalls have no rule {rule}",
                    why="network tags name the sources of traffic, never its destinations",
                    remedy="write it as ingress into that group, or give a cidr",
                )

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        cid, what = self._name(name), f"create security group {name}"
        body = {
            **self._body(cid, cid, "INGRESS"),
            "description": describe_mark(mark, **{NAME: name}),
            "priority": _DENIED,
            "denied": [{"IPProtocol": "all"}],
            "sourceRanges": ["0.0.0.0/0"],
        }

        def insert() -> Row:
            return self.client.insert(what, self._collection(), body, mark, lambda: self._remove(cid))

        row = self.parts.create(mark, "security_group", name, insert, id_of=lambda made: str(made["name"]))
        found = self.existing(row, [])
        return found, found.mark == mark

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        rows = found.row.get("_rules", ())
        return [
            ListedRule(str(row["name"]), rule)
            for row in rows
            if row["name"] != found.id and row.get("allowed") and not row.get("disabled")
            for rule in _read_rules(row)
        ]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        """Its name follows from what it says, so it is there once. With an egress rule nothing else may leave."""
        group = self.client.get(self.client.firewall(cid)) or {}
        text = {"description": str(group.get("description") or "")}
        if rule.direction == "egress":
            body = {**self._body(f"{cid}-{_DENY_OUT}", cid, "EGRESS"), **text, "priority": _DENIED}
            body |= {"denied": [{"IPProtocol": "all"}], "destinationRanges": ["0.0.0.0/0"]}
            self.client.insert(f"write a rule of {cid}", self._collection(), body, None)
        digest = hashlib.sha256(str(rule).encode()).hexdigest()[:_DIGEST]
        body = {**self._body(f"{cid}-{digest}", cid, rule.direction.upper()), **text, "priority": _ALLOWED}
        body |= _write_rule(rule)
        self.client.insert(f"write a rule of {cid}", self._collection(), body, None)

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        left = self.read(cid)
        others = self.rules_of(left) if left else []
        if not any(one.rule.direction == "egress" and one.id != listed.id for one in others):
            self._remove(f"{cid}-{_DENY_OUT}")
        self._remove(listed.id)

    def delete(self, cid: str) -> None:
        """The rules first: the group itself is what is found again. Google knows no users of a firewall rule."""
        row = self.client.get(self.client.firewall(cid))
        if row is None:
            return
        users = self.users(cid)
        if users:
            raise CpiError(f"security group {cid} is used by {', '.join(users[:5])}", remedy="delete its VMs first")
        if is_group(row):
            for one in self.list_rows(f"{cid}-"):
                self._remove(str(one["name"]))
        self._remove(cid)

    def delete_if_unused(self, cid: str) -> None:
        if not self.users(cid):
            self.delete(cid)

    def users(self, cid: str, vms: Sequence[Row] | None = None) -> list[str]:
        """`vms`: all instances, where they are known already."""
        tag = _group_of({"name": cid}) if cid.startswith(_PREFIX) else cid
        rows = self.machines.list_all() if vms is None else vms
        return [cid_of(row) for row in rows if tag in ((row.get("tags") or {}).get("items") or ())]

    def existing(self, row: Row, rows: Sequence[Row]) -> ExistingSecurityGroup:
        mark, cid = mark_of(row), str(row["name"])
        name = words_of(row).get(NAME, cid)
        group = _group_of(row)
        ours = mark is not None and mark.director == self.client.director_uuid and group == self._name(name)
        is_part = ours and mark is not None and self.parts.is_ours(mark, "security_group", group, name)
        own = [one for one in rows if str(one["name"]).startswith(f"{cid}-")]
        return ExistingSecurityGroup(cid, mark if is_part else None, {**row, "_rules": own}, name)

    def _name(self, name: str) -> str:
        digest = hashlib.sha256(name.encode()).hexdigest()[:26]
        return f"{_PREFIX}{director_prefix(self.client.director_uuid)}-{digest}"

    def _collection(self) -> str:
        return self.client.firewall("x").removesuffix("/x")

    def _body(self, name: str, tag: str, direction: str) -> Row:
        network = (
            f"projects/{self.client.settings.network_project}/global/networks/{self.client.settings.default_network}"
        )
        return {"name": name, "network": network, "direction": direction, "targetTags": [tag]}

    def _remove(self, name: str) -> None:
        if self.client.get(self.client.firewall(name)) is not None:
            self.client.delete(f"delete firewall rule {name}", self.client.firewall(name))


def is_group(row: Row) -> bool:
    """Not a rule of one."""
    return str(row["name"]).startswith(_PREFIX) and len(str(row["name"])) == _LENGTH


def _group_of(row: Row) -> str:
    return str(row["name"])[:_LENGTH]


def _write_rule(rule: SecurityRule) -> Row:
    protocol = _ICMP_V6 if rule.protocol == "icmp" and rule.family == "IPv6" and not rule.group else ""
    allowed: Row = {"IPProtocol": protocol or _PROTOCOLS[rule.protocol]}
    if rule.ports:
        allowed["ports"] = ["-".join(dict.fromkeys(map(str, rule.ports)))]
    if rule.group:
        return {"allowed": [allowed], "sourceTags": [rule.group]}
    return {"allowed": [allowed], "sourceRanges" if rule.direction == "ingress" else "destinationRanges": [rule.cidr]}


def _read_rules(row: Row) -> list[SecurityRule]:
    """A tag as the other end counts for both families, as in manifests."""
    direction = str(row.get("direction", "INGRESS")).lower()
    cidrs = [*(row.get("sourceRanges") or ()), *(row.get("destinationRanges") or ())]
    found = []
    for entry in row.get("allowed") or ():
        protocol = {"all": "any", _ICMP_V6: "icmp"}.get(str(entry["IPProtocol"]), str(entry["IPProtocol"]))
        for text in entry.get("ports") or [None]:
            low, _, high = (text or "").partition("-")
            ports = (low or None, (high or low) or None)
            found += [make_rule(direction, protocol, ports, cidr) for cidr in cidrs]
            for tag in row.get("sourceTags") or ():
                found += [make_rule(direction, protocol, ports, None, tag, family) for family in _BOTH]
    return found
