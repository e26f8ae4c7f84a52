"""A security group is a network tag, and firewall rules for what bears it: one that is there as long as the group, has
its name and mark and denies what comes in, and one for each rule, named after what it says. Names follow from the
manifest's words, so each is made once. What the network's other rules say about the tag was written by people."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from coterie.cpi.contract import CpiError, InvalidCall, Mark, NotSupported, SecurityGroup, SecurityRule, read_rules
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.gcp.client import Client
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.marks import Row, cid_of, describe_mark, is_ours, mark_of, name_of, words_of, write_words
from coterie.cpi.kit.checks import mark_of_group
from coterie.cpi.kit.group_records import TAG, GroupRecord, read_tags, tag_of
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.ids import director_prefix
from coterie.slotted import dataclass

NAME = "coterie-name"  # of a security group, as manifests call it
_PREFIX, _LENGTH, _DIGEST = "cot-sg-", 44, 16
_ALLOWED, _DENIED, _RULES = 1000, 1001, 100
_DENY_OUT = "-deny-out"
_PROTOCOLS = {"any": "all", "tcp": "tcp", "udp": "udp", "icmp": "icmp", "esp": "esp", "ah": "ah", "sctp": "sctp"}
_ICMP_V6 = "58"
_BOTH = ("IPv4", "IPv6")
_ENDS = ("sourceRanges", "destinationRanges")
_NO_TRAFFIC = "192.0.2.1/32"  # of documentation
_SAID = ("direction", "priority", "allowed", "denied", *_ENDS, "sourceTags", "sourceServiceAccounts")


@dataclass(frozen=True, slots=True)
class Firewalls:
    """Fills the kit's `SecurityGroupCloud`. All are in the network `default_network`."""

    client: Client
    parts: Parts
    machines: Machines
    egress_needs_rules: ClassVar[bool] = False

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By its word in manifests; else an operator's firewall rule that is named like its tag."""
        here = self.client.settings.default_network
        found = self.read(self._name(name, here))
        if found is None:
            found = self.read(name)
            if found is None or name not in (found.row.get("targetTags") or ()):
                return None
        if _network_of(found.row) != here:
            raise InvalidCall(
                f"firewall rule {found.id} is of network {_network_of(found.row)}, security groups are in {here}",
                why="VMs in one network are not reached by rules of another",
                remedy="use another name, or set properties.default_network",
            )
        return found

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        """With all rules for its tag, whatever they are called: Google filters by no list field."""
        row = self.client.get(self._path(cid))
        return self.existing(row, self.client.everywhere("firewalls")) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        rows = self.list_rows(f"{_PREFIX}{director_prefix(mark.director)}")
        found = [self.existing(row, rows) for row in self.heads(rows) if mark_of(row) == mark]
        return [one for one in found if one.mark]

    def heads(self, rows: Sequence[Row]) -> list[Row]:
        """Of these rows the groups, and rules that have lost theirs: each of them is all that is left of a group."""
        groups = {str(row["name"]) for row in rows if is_group(row)}
        own = [row for row in rows if str(row["name"]).startswith(_PREFIX)]
        lost = {
            group for group in {_group_of(row) for row in own} - groups if self.client.get(self._path(group)) is None
        }
        return [row for row in own if is_group(row) or _group_of(row) in lost]

    def list_rows(self, prefix: str) -> list[Row]:
        """Firewall rules whose name begins so."""
        rows = self.client.everywhere("firewalls", filter=f"name eq {prefix}.*")
        return [row for row in rows if str(row["name"]).startswith(prefix)]

    def count_missing(self, groups: Sequence[Mapping[str, Any]]) -> int:
        """How many firewall rules are still to be created for these server groups, as `Needs` has them: those of their
        security groups, and one for each group's record."""
        wanted, unnamed, prefix = set[str](), 0, director_prefix(self.client.director_uuid)
        for group in groups:
            asked = list(map(SecurityGroup.of_wire, group.get("security_groups") or ()))
            wanted |= {name for one in asked if not one.adopt for name in self._rule_names(one)}
            if asked and group.get("cid"):
                wanted.add(str(group["cid"]))
            elif asked:
                unnamed += 1
        here = [self.list_rows(f"{start}{prefix}-") for start in (_PREFIX, "cg-") if wanted]
        return unnamed + len(wanted - {str(row["name"]) for rows in here for row in rows})

    def _rule_names(self, group: SecurityGroup) -> set[str]:
        """The firewall rules that a security group of ours consists of."""
        cid, rules = self._name(group.name, self.client.settings.default_network), read_rules(group.rules or ())
        closed = {f"{cid}{_DENY_OUT}"} if any(rule.direction == "egress" for rule in rules) else set()
        return {cid, *closed, *(_rule_name(cid, rule) for rule in rules)}

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
        cid, what = self._name(name, self.client.settings.default_network), f"create security group {name}"
        body = {**self.deny(cid), "description": describe_mark(mark, **{NAME: name})}
        insert = partial(self.client.insert_once, what, self._path(cid), body, mark)
        row = self.parts.create(mark, "security_group", name, insert, id_of=lambda made: str(made["name"]))
        found = self.existing(row, [])
        return found, found.mark == mark

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        """Also what people wrote in Google's own words, and in a group of ours what is open since a rule of ours that
        denies the rest is missing or another, or closed since one is left."""
        cid, rows = found.id, {str(row["name"]): row for row in found.row.get("_rules", ())}
        deny_in, deny_out = self.deny(cid), self.deny(cid, out=True)
        own = {str(deny["name"]) for deny in (deny_in, deny_out)} if is_group(found.row) else set()
        rules = [
            ListedRule(name, rule)
            for name, row in rows.items()
            if name not in own and not _says(row, deny_in)
            for rule in _read_rules(row, cid)
        ]
        if found.mark is None:
            return rules
        for deny, row, is_wanted in (
            (deny_in, found.row, True),
            (deny_out, rows.get(str(deny_out["name"])), _has_egress(rules)),
        ):
            name, direction = str(deny["name"]), str(deny["direction"]).lower()
            if is_wanted and not (row and _says(row, deny)):
                rules.append(ListedRule(name, make_rule(direction, "any", other=f"what {name} denied")))
            elif row and not is_wanted:
                rules.append(ListedRule(name, make_rule(direction, "any", other=f"what {name} denies")))
        return rules

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        """Its name follows from what it says, so it is there once. With an egress rule nothing else may leave."""
        group = self.client.get(self._path(cid)) or {}
        text = {"description": str(group.get("description") or "")}
        if rule.direction == "egress":
            self._write({**self.deny(cid, out=True), **text})
        body = {**self._body(_rule_name(cid, rule), cid, rule.direction.upper()), **text, "priority": _ALLOWED}
        self._write(body | _write_rule(rule))

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        """A rule that a person wrote for other machines, too, stays for these."""
        left, deny_out = self.read(cid), f"{cid}{_DENY_OUT}"
        rules = self.rules_of(left) if left else []
        if left is None or listed not in rules:  # it came to say what was requested
            return
        has_egress = _has_egress(one for one in rules if one.id != listed.id)
        if listed.id == cid or (listed.id == deny_out and has_egress):
            self._write({**self.deny(cid, out=listed.id != cid), "description": left.row["description"]})
            return
        if not has_egress:
            self._remove(deny_out)
        row = self.client.get(self._path(listed.id)) or {}
        tags = [tag for tag in row.get("targetTags") or () if tag != cid]
        if tags and not listed.id.startswith(f"{cid}-"):
            body = {"name": listed.id, "targetTags": tags}
            self.client.change(f"take {cid} out of {listed.id}", "PATCH", self._path(listed.id), body)
        else:
            self._remove(listed.id)

    def delete(self, cid: str) -> None:
        """The rules first: the group itself is what is found again. Google knows no users of a firewall rule."""
        row = self.client.get(self._path(cid))
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

    def existing(self, row: Row, rows: Iterable[Row]) -> ExistingSecurityGroup:
        """Of these rules those are its own that are for its tag in its network, or are named after it."""
        mark, cid = mark_of(row), str(row["name"])
        name = words_of(row).get(NAME, cid)
        group = _group_of(row)
        ours = is_ours(row, self.client.director_uuid) and group == self._name(name, _network_of(row))
        is_part = ours and mark is not None and self.parts.is_ours(mark, "security_group", group, name)
        own = [one for one in rows if self._is_of(cid, one)]
        return ExistingSecurityGroup(cid, mark if is_part else None, {**row, "_rules": own}, name)

    def _name(self, name: str, network: str) -> str:
        """Rules are of one network, so each network of a project has a group of its own by the name."""
        word = f"{self.client.settings.network_project}/{network}/{name}"
        digest = hashlib.sha256(word.encode()).hexdigest()[:26]
        return f"{_PREFIX}{director_prefix(self.client.director_uuid)}-{digest}"

    def _path(self, name: str) -> str:
        return self.client.path("firewalls", name)

    def _is_of(self, cid: str, row: Row) -> bool:
        is_here = _network_of(row) == self.client.settings.default_network
        is_named = is_group({"name": cid}) and str(row["name"]).startswith(f"{cid}-")
        return is_named or (is_here and cid in (row.get("targetTags") or ()))

    def deny(self, cid: str, *, out: bool = False) -> Row:
        """The rule that lets nothing in, or out, but what others of the group allow."""
        ranges = {"destinationRanges" if out else "sourceRanges": ["0.0.0.0/0"]}
        body = self._body(f"{cid}{_DENY_OUT}" if out else cid, cid, "EGRESS" if out else "INGRESS")
        return {**body, "priority": _DENIED, "denied": [{"IPProtocol": "all"}], **ranges}

    def _write(self, body: Row) -> None:
        """Once, and in these words: a person may have changed or disabled it. Direction, network and whether it denies
        are for the life of a firewall rule."""
        name, what = str(body["name"]), f"write the firewall rule {body['name']}"
        row = self.client.insert_once(what, self._path(name), body, None)
        if _says(row, body):
            return
        fixed = [(str(one.get("direction")), _network_of(one), "denied" in one) for one in (row, body)]
        if fixed[0] == fixed[1]:
            self.client.change(what, "PUT", self._path(name), {**body, "disabled": False})
        else:
            self._remove(name)
            self.client.insert_once(what, self._path(name), body, None)

    def _body(self, name: str, tag: str, direction: str) -> Row:
        network = self.client.path("networks", self.client.settings.default_network)
        return {"name": name, "network": network, "direction": direction, "targetTags": [tag]}

    def _remove(self, name: str) -> None:
        if self.client.get(self._path(name)) is not None:  # reading costs less than a change
            self.client.delete(f"delete firewall rule {name}", self._path(name))


@dataclass(frozen=True, slots=True)
class RuleRecords:
    """Fills the kit's `RecordStore`: the kit's tags as words in the description of a disabled rule, whose name is the
    CID of the server group."""

    limit = 10  # security groups of a server group: a description has 2,048 characters

    client: Client
    firewalls: Firewalls

    def list_records(self) -> list[GroupRecord]:
        rows = self.firewalls.list_rows(f"cg-{director_prefix(self.client.director_uuid)}-")
        return [record for row in rows for record in read_tags(str(row["name"]), words_of(row))]

    def records_of(self, cid: str) -> list[GroupRecord]:
        return read_tags(cid, words_of(self.client.get(self.client.path("firewalls", cid)) or {}))

    def require_room(self, cid: str) -> None:
        """Every server group has a rule of its own for its records."""

    def add_record(self, record: GroupRecord) -> None:
        cid, path = record.cid, self.client.path("firewalls", record.cid)
        tag, what = tag_of(record), f"record the security groups of {cid}"
        mark = mark_of_group(cid, self.client.director_uuid)
        body = {
            **self.firewalls.deny(cid),
            "description": describe_mark(mark, **{GROUP: cid, **tag}),
            "disabled": True,
            "sourceRanges": [_NO_TRAFFIC],
        }
        words = words_of(self.client.get(path) or self.client.insert_once(what, path, body, None))
        if not tag.items() <= words.items():
            self._write(cid, {**words, **tag})

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        cid, path = records[0].cid, self.client.path("firewalls", records[0].cid)
        row = self.client.get(path)
        if row is None:
            return
        gone = {key for record in records for key in tag_of(record)}
        left = {key: value for key, value in words_of(row).items() if key not in gone}
        if any(key.startswith(TAG) for key in left):
            self._write(cid, left)
        else:
            self.client.delete(f"delete the records of {cid}", path)

    def _write(self, cid: str, words: Mapping[str, str]) -> None:
        body = {"name": cid, "description": write_words(words)}
        self.client.change(f"record the security groups of {cid}", "PATCH", self.client.path("firewalls", cid), body)


def is_group(row: Mapping[str, Any]) -> bool:
    """Not a rule of one."""
    return str(row["name"]).startswith(_PREFIX) and len(str(row["name"])) == _LENGTH


def _network_of(row: Mapping[str, Any]) -> str:
    return name_of(str(row.get("network")))


def _group_of(row: Row) -> str:
    return str(row["name"])[:_LENGTH]


def _rule_name(cid: str, rule: SecurityRule) -> str:
    return f"{cid}-{hashlib.sha256(str(rule).encode()).hexdigest()[:_DIGEST]}"


def _write_rule(rule: SecurityRule) -> Row:
    protocol = _ICMP_V6 if rule.protocol == "icmp" and rule.family == "IPv6" and not rule.group else ""
    allowed: Row = {"IPProtocol": protocol or _PROTOCOLS[rule.protocol]}
    if rule.ports:
        allowed["ports"] = ["-".join(dict.fromkeys(map(str, rule.ports)))]
    if rule.group:
        return {"allowed": [allowed], "sourceTags": [rule.group]}
    return {"allowed": [allowed], "sourceRanges" if rule.direction == "ingress" else "destinationRanges": [rule.cidr]}


def _has_egress(rules: Iterable[ListedRule]) -> bool:
    """Rules with which nothing else may leave."""
    return any(one.rule.direction == "egress" and one.rule.other is None for one in rules)


def _says(row: Mapping[str, Any], body: Row) -> bool:
    is_for = set(body["targetTags"]) <= set(row.get("targetTags") or ())
    return is_for and not row.get("disabled") and all((row.get(key) or None) == body.get(key) for key in _SAID)


def _read_rules(row: Row, tag: str) -> list[SecurityRule]:
    """A tag as the other end counts for both families, as in manifests. What denies, is disabled or narrower than rules
    of ours, of another priority, for other machines or from service accounts was written by people; so was what lets
    traffic out of a group of ours under another name: only our own rules keep all else in."""
    direction, name = str(row.get("direction", "INGRESS")).lower(), str(row["name"])
    here, there = _ENDS if direction == "ingress" else _ENDS[::-1]
    is_plain = row.get("allowed") and int(row.get("priority", _ALLOWED)) == _ALLOWED and not row.get(there)
    is_plain = is_plain and tag in (row.get("targetTags") or ()) and not row.get("sourceServiceAccounts")
    if direction == "egress" and is_group({"name": tag}):
        is_plain = is_plain and name.startswith(f"{tag}-")
    foreign = f"disabled rule {name}" if row.get("disabled") else None if is_plain else f"rule {name}"
    found = []
    for entry in (*(row.get("allowed") or ()), *(row.get("denied") or ())):
        protocol = {"all": "any", _ICMP_V6: "icmp"}.get(str(entry["IPProtocol"]), str(entry["IPProtocol"]))
        for text in entry.get("ports") or [None]:
            low, _, high = (text or "").partition("-")
            ports = (low or None, (high or low) or None)
            if foreign:
                found.append(make_rule(direction, protocol, ports, other=foreign))
                continue
            everywhere = () if row.get("sourceTags") else (None,)
            found += [make_rule(direction, protocol, ports, cidr) for cidr in row.get(here) or everywhere]
            for end in row.get("sourceTags") or ():
                found += [make_rule(direction, protocol, ports, None, end, family) for family in _BOTH]
    return found
