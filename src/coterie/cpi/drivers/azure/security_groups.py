"""A security group of the manifest is a network security group, which NICs have one of, and beside it an application
security group of the same name, by which rules of others name its members. Names follow from the manifest's words, so
that they are found without a list, and PUT never changes a stranger's. Which server group has which is recorded in tags
of an application security group that is named by the server group's CID."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import partial
from typing import ClassVar

from coterie.cpi.contract import InvalidCall, Mark, NotSupported, SecurityRule
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.azure.client import Client, Refusal, Row, Type, is_same, name_of
from coterie.cpi.drivers.azure.machines import nics_of
from coterie.cpi.drivers.azure.tags import NAME, mark_of, marked, merge_tags, tag_of, tags_of
from coterie.cpi.kit.checks import mark_of_group
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.group_records import TAG, GroupRecord, read_tags
from coterie.cpi.kit.group_records import tag_of as record_tag
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.ids import director_prefix
from coterie.slotted import dataclass

_PROTOCOLS = {"any": "*", "tcp": "Tcp", "udp": "Udp", "icmp": "Icmp", "esp": "Esp", "ah": "Ah"}
_RULES, _FIRST, _LAST, _DENY = 990, 100, 4000, 4096
_DENY_IN, _DENY_OUT = "cot-deny-in", "cot-deny-out"
_EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
_NIC_READ_ONLY = frozenset(
    (
        *("provisioningState", "resourceGuid", "macAddress", "virtualMachine", "privateEndpoint", "primary"),
        *("hostedWorkloads", "tapConfigurations", "dscpConfiguration"),
        *("vnetEncryptionSupported", "defaultOutboundConnectivityEnabled", "allowPort25Out"),
    )
)
_CONFIG_READ_ONLY = frozenset(("provisioningState", "privateLinkConnectionProperties"))
_DNS_READ_ONLY = frozenset(("appliedDnsServers", "internalFqdn", "internalDomainNameSuffix"))
LABEL: Type = "application security group"
_BUSY = ("AnotherOperationInProgress", "RetryableError", "Conflict")  # a group takes one writer
_IN_USE = ("InUseNetworkSecurityGroupCannotBeDeleted", "InUseApplicationSecurityGroupCannotBeDeleted")


@dataclass(frozen=True, slots=True)
class AzureSecurityGroups:
    """Fills the kit's `SecurityGroupCloud`."""

    client: Client
    parts: Parts
    writer: SingleWriter[Refusal]
    egress_needs_rules: ClassVar[bool] = False

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        return self.read(self._name(name)) or self.read(name)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.client.get("security group", cid)
        return self.existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        found = [self.existing(row) for row in self.client.list_type("security group") if mark_of(row) == mark]
        return [one for one in found if one.mark]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        if len(rules) > _RULES:
            raise NotSupported(f"a security group has {len(rules)} rules", remedy=f"use at most {_RULES}")
        for rule in rules:
            if rule.protocol not in _PROTOCOLS or (
                rule.protocol == "icmp" and (rule.ports or (rule.cidr and ":" in rule.cidr))
            ):
                raise NotSupported(
                    f"a security group of Azure has no rule {rule}",
                    remedy=f"use the protocols {', '.join(_PROTOCOLS)}; icmp over IPv4, without type and code",
                )

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        change = {"kind": "security_group", "name": name, "mark": mark.wire()}
        made = self.writer.submit("security_group", self._name(name), change)
        found = self.read(made.cid)
        if found is None:
            raise InvalidCall(f"security group {name} was deleted at once", remedy="repeat")
        return found, made.new

    def create_once(self, change: Row, hold: Hold) -> Created:
        name, mark = str(change["name"]), Mark.of_wire(change["mark"])
        cid = self._name(name)

        def put() -> str:
            rules = [{"name": _DENY_IN, "properties": _DENIES[_DENY_IN]}]
            body = {"tags": marked(mark, **{NAME: name}), "properties": {"securityRules": rules}}
            self.client.put("security group", cid, body)
            return cid

        def create() -> str:
            return self.parts.create(mark, "security_group", name, put, id_of=str)

        return create_if_absent(
            lambda: [cid] if self.client.get("security group", cid) else [], create, self.delete, hold
        )

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        """Also what people wrote in Azure's own words, and in a group of ours what is open since a rule of ours that
        denies the rest is missing or another."""
        rows = {str(row["name"]): row["properties"] for row in found.row["properties"].get("securityRules") or ()}
        intact = {name for name, deny in _DENIES.items() if name in rows and _is_denied_by(rows[name], deny)}
        rules = [
            ListedRule(name, rule)
            for name, row in rows.items()
            if name not in _DENIES
            for rule in _read_rule(name, row)
        ]
        wanted = {_DENY_IN: "ingress"}
        if any(one.rule.direction == "egress" for one in rules):
            wanted[_DENY_OUT] = "egress"
        for name, direction in wanted.items() if found.mark else ():
            if name not in intact:
                rules.append(ListedRule(name, make_rule(direction, "any", other=f"what {name} denied")))
        return rules

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        """Its name follows from what it says, its priority from the name: a repeat is the same request, and of two that
        meet at one priority the later takes the next."""
        groups = [{"id": self.ensure_label(rule.group)}] if rule.group else None
        digest = hashlib.sha256(str(rule).encode()).hexdigest()
        for taken in range(_RULES + 1):
            priority = _FIRST + (int(digest[:8], 16) + taken) % (_LAST - _FIRST)
            try:
                self._put_rule(cid, f"cot-{digest[:24]}", _write_rule(rule, groups, priority))
                break
            except Refusal as error:
                if not error.is_one("SecurityRuleConflict") or taken == _RULES:
                    raise
        if rule.direction == "egress":
            self._put_rule(cid, _DENY_OUT, _DENIES[_DENY_OUT])

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        if listed.id in _DENIES:
            self._put_rule(cid, listed.id, _DENIES[listed.id])
            return
        left = self.rules_of(self.read(cid) or ExistingSecurityGroup(cid, None, {"properties": {}}))
        if not any(one.rule.direction == "egress" and one.id not in (listed.id, *_DENIES) for one in left):
            self._delete_rule(cid, _DENY_OUT)
        self._delete_rule(cid, listed.id)

    def delete(self, cid: str) -> None:
        """The label first: the group itself is what is found again. Rules that name the group itself would hold it.
        Where others deleted the group, its label is left, and goes if it is ours."""
        row, label = self.client.get("security group", cid), self.client.get(LABEL, cid)
        if row is None:
            if label and self.existing(label).mark:
                self.client.delete(LABEL, cid)
            return
        if used := users(row):
            raise Refusal(f"delete security group {cid}", _IN_USE[0], f"{used[0]} has it", 400)
        if label:
            for listed in self.rules_of(self.existing(row)):
                if is_same(listed.rule.group, cid):
                    self._delete_rule(cid, listed.id)
            self.client.delete(LABEL, cid)
        self.client.delete("security group", cid)

    def delete_if_unused(self, cid: str) -> None:
        try:
            self.delete(cid)
        except Refusal as error:
            if not error.is_one(*_IN_USE):
                raise

    def ensure_label(self, cid: str) -> str:
        """The id of the application security group beside this one."""
        label = self.client.id(LABEL, cid)
        if self.client.get(LABEL, cid):
            return label
        row = self.client.get("security group", cid)
        if row is None or self.existing(row).mark is None:
            raise InvalidCall(
                f"a security rule names {cid}, which has no application security group",
                remedy="have the operator create one of the same name beside it",
            )
        self.client.put(LABEL, cid, {"tags": tags_of(row)})
        return label

    def label_of(self, cid: str) -> str | None:
        """The application security group that members of a security group bear: ours always have one, so that rules
        that are added later name them."""
        found = self.read(cid)
        ours = found is not None and (found.mark is not None or self.client.get(LABEL, cid) is not None)
        return name_of(self.ensure_label(cid)) if ours else None

    def exchange(self, vm: Row, old: Collection[str], new: Collection[str]) -> None:
        """On all NICs of a VM."""
        labels = [one for one in new if self.label_of(one)]
        for reference in nics_of(vm):
            nic = self.client.get("NIC", name_of(reference["id"]).lower())
            if nic is not None:
                self._exchange(nic, old, new, labels)

    def _exchange(self, nic: Row, old: Collection[str], new: Collection[str], labels: Sequence[str]) -> None:
        """A NIC is written as a whole: with all that it has and that can be written."""
        properties = {key: value for key, value in nic["properties"].items() if key not in _NIC_READ_ONLY}
        if "dnsSettings" in properties:
            dns = properties["dnsSettings"] or {}
            properties["dnsSettings"] = {key: value for key, value in dns.items() if key not in _DNS_READ_ONLY}
        has = name_of((properties.pop("networkSecurityGroup", None) or {"id": ""})["id"])
        kept = [*new] or [one for one in [has] if one and one.lower() not in {each.lower() for each in old}]
        if kept:
            properties["networkSecurityGroup"] = {"id": self.client.id("security group", kept[0])}
        properties["ipConfigurations"] = [
            self._exchange_labels(one, old, labels) for one in properties["ipConfigurations"]
        ]
        beside = {"extendedLocation": nic["extendedLocation"]} if nic.get("extendedLocation") else {}
        body = {"location": nic["location"], "tags": tags_of(nic), "properties": properties, **beside}
        self.client.put("NIC", nic["name"], body, verb="change the security group of")

    def _exchange_labels(self, config: Row, old: Collection[str], labels: Sequence[str]) -> Row:
        given = {key: value for key, value in config["properties"].items() if key not in _CONFIG_READ_ONLY}
        gone = {one.lower() for one in (*old, *labels)}
        kept = [one for one in given.get("applicationSecurityGroups") or () if name_of(one["id"]).lower() not in gone]
        given["applicationSecurityGroups"] = [*kept, *({"id": self.client.id(LABEL, one)} for one in labels)]
        return {"name": config["name"], "properties": given}

    def _put_rule(self, cid: str, name: str, properties: Row) -> None:
        what, body = f"write a rule of {cid}", {"properties": properties}
        put = partial(self.client.put_id, what, self._rule_id(cid, name), body)
        self.client.repeat(f"the change of security group {cid}", put, *_BUSY)

    def _delete_rule(self, cid: str, name: str) -> None:
        delete = partial(self.client.delete_id, f"delete a rule of {cid}", self._rule_id(cid, name))
        self.client.repeat(f"the change of security group {cid}", delete, *_BUSY)

    def _rule_id(self, cid: str, name: str) -> str:
        return f"{self.client.id('security group', cid)}/securityRules/{name}"

    def _name(self, name: str) -> str:
        digest = hashlib.sha256(name.encode()).hexdigest()[:26]
        return f"cot-sg-{director_prefix(self.client.director_uuid)}-{digest}"

    def existing(self, row: Row) -> ExistingSecurityGroup:
        mark, cid = mark_of(row), str(row["name"])
        name = tag_of(row, NAME) or cid
        ours = mark is not None and mark.director == self.client.director_uuid
        is_part = mark is not None and self.parts.is_ours(mark, "security_group", cid, name)
        return ExistingSecurityGroup(cid, mark if ours and is_part else None, row, name)


@dataclass(frozen=True, slots=True)
class LabelRecords:
    """Fills the kit's `RecordStore`: tags `coterie-record-<n>: <policy> <id>` of an application security group, whose
    name is the CID."""

    limit = 1  # security groups of a server group

    client: Client

    def list_records(self) -> list[GroupRecord]:
        return [record for row in self.client.list_type(LABEL) for record in read_records(row)]

    def records_of(self, cid: str) -> list[GroupRecord]:
        row = self.client.get(LABEL, cid)
        return read_records(row) if row else []

    def require_room(self, cid: str) -> None:
        """Every server group has a label of its own."""

    def add_record(self, record: GroupRecord) -> None:
        cid, mark = record.cid, mark_of_group(record.cid, self.client.director_uuid)
        has = tags_of(self.client.get(LABEL, cid) or {})
        self.client.put(LABEL, cid, {"tags": {**marked(mark, **{GROUP: cid}), **has, **record_tag(record)}})

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        cid = records[0].cid
        row = self.client.get(LABEL, cid)
        if row is None:
            return
        left = merge_tags(row, {}, without=[key for record in records for key in record_tag(record)])
        if any(key.startswith(TAG) for key in left):
            self.client.put(LABEL, cid, {"tags": left})
        else:
            self.client.delete(LABEL, cid)


def read_records(label: Row) -> list[GroupRecord]:
    return read_tags(str(label["name"]), tags_of(label))


def users(row: Row) -> tuple[str, ...]:
    """NICs and subnets that have a network security group."""
    ends = (row["properties"].get(key) or () for key in ("networkInterfaces", "subnets"))
    return tuple(name_of(one["id"]).lower() for end in ends for one in end)


def labels_of(nic: Row) -> set[str]:
    """The application security groups that a NIC bears."""
    configs = nic["properties"].get("ipConfigurations") or ()
    found = [each for one in configs for each in one["properties"].get("applicationSecurityGroups") or ()]
    return {name_of(each["id"]).lower() for each in found}


def _write_rule(rule: SecurityRule, groups: list[Row] | None, priority: int) -> Row:
    inside = rule.direction == "ingress"
    far, near = ("source", "destination") if inside else ("destination", "source")
    ports = "*" if rule.ports is None else "-".join(dict.fromkeys(map(str, rule.ports)))
    end = {f"{far}ApplicationSecurityGroups": groups} if groups else {f"{far}AddressPrefix": rule.cidr}
    return {
        "protocol": _PROTOCOLS[rule.protocol],
        "access": "Allow",
        "direction": "Inbound" if inside else "Outbound",
        "priority": priority,
        "sourcePortRange": "*",
        "destinationPortRange": ports,
        f"{near}AddressPrefix": "*",
        **end,
    }


def _deny(direction: str, source: str) -> Row:
    """What the platform's own rules let through; its load balancers still come in."""
    ends = {"sourceAddressPrefix": source, "destinationAddressPrefix": "*"}
    ports = {"sourcePortRange": "*", "destinationPortRange": "*"}
    return {"protocol": "*", "access": "Deny", "direction": direction, "priority": _DENY, **ends, **ports}


_DENIES = {_DENY_IN: _deny("Inbound", "VirtualNetwork"), _DENY_OUT: _deny("Outbound", "*")}


def _is_denied_by(row: Row, deny: Row) -> bool:
    return all(is_same(str(row.get(key)), str(value)) for key, value in deny.items())


def _read_rule(name: str, row: Row) -> list[SecurityRule]:
    """In both families where the rule has no own. What is narrower than rules of ours, denies, or has a service tag was
    written by others."""
    inside = is_same(row["direction"], "Inbound")
    far, near, direction = ("source", "destination", "ingress") if inside else ("destination", "source", "egress")
    narrow = row.get("sourcePortRange") not in ("*", None) or row.get(f"{near}AddressPrefix") not in ("*", None)
    narrow = narrow or any(row.get(f"{near}{key}") for key in ("AddressPrefixes", "ApplicationSecurityGroups"))
    foreign = f"rule {name}" if narrow or row.get("sourcePortRanges") or not is_same(row["access"], "Allow") else None
    protocol = {"*": "any"}.get(row["protocol"], str(row["protocol"]).lower())
    ranges = [*filter(None, [row.get("destinationPortRange")]), *(row.get("destinationPortRanges") or ())]
    found = []
    for text in ranges:
        low, _, high = text.partition("-")
        ports = (None, None) if text == "*" else (low, high or low)
        if foreign:
            found.append(make_rule(direction, protocol, ports, other=foreign))
            continue
        for group in row.get(f"{far}ApplicationSecurityGroups") or ():
            found += [make_rule(direction, protocol, ports, None, name_of(group["id"]), one) for one in _EVERYWHERE]
        for prefix in [*filter(None, [row.get(f"{far}AddressPrefix")]), *(row.get(f"{far}AddressPrefixes") or ())]:
            is_tag = prefix != "*" and not prefix[0].isdigit() and ":" not in prefix
            cidrs = [None] if is_tag else list(_EVERYWHERE.values()) if prefix == "*" else [prefix]
            other = f"service tag {prefix}" if is_tag else None
            found += [make_rule(direction, protocol, ports, cidr, other=other) for cidr in cidrs]
    return found
