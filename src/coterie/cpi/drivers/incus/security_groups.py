"""Security groups as network ACLs. An ACL has a name and one list of rules for each direction, which is written whole:
under its etag, so that no rule of another writer is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from coterie.cpi.contract import CpiError, InvalidCall, Mark, SecurityRule
from coterie.cpi.contract.rules import EVERYTHING_OUT, make_rule
from coterie.cpi.drivers.incus.client import Client, Refusal, Row, look_after
from coterie.cpi.drivers.incus.marks import mark_config, mark_of, of_mark
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.slotted import dataclass

_PATH = "/network-acls"


@dataclass(frozen=True, slots=True)
class NetworkAcls:
    """Fills the kit's `SecurityGroupCloud`. An ACL lets out nothing that no rule allows."""

    client: Client
    parts: Parts
    egress_needs_rules: ClassVar[bool] = True

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        return self.read(name)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.client.ask(f"read network ACL {cid}", f"{_PATH}/{cid}")
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        rows = self.client.rows("find network ACLs", _PATH, of_mark(mark))
        found = [self._existing(row) for row in rows if mark_of(row) == mark]
        return [one for one in found if one.mark]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        for rule in rules:
            if rule.group:
                raise InvalidCall(
                    f"a security rule names the group {rule.group!r}",
                    why="Incus knows ACLs as the other end of a rule on OVN networks only, which are not tested",
                    remedy="write the cidr of that group's network",
                )

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        """With rules that let everything out, as other clouds have it. Names are unique: after a refusal the ACL that
        is there counts."""
        body = {
            "name": name,
            "description": f"created by Coterie as {mark.name()}",
            "config": mark_config(mark),
            "ingress": [],
            "egress": [_entry(rule) for rule in EVERYTHING_OUT],
        }

        def create() -> str:
            self.client.change(f"create network ACL {name}", "POST", _PATH, body)
            return name

        try:
            self.parts.create(mark, "security_group", name, create, id_of=str)
        except Refusal as error:
            found = look_after(error, lambda: self.read(name))
            if found is None:
                raise
            return found, False
        made = self.read(name)
        if made is None:
            raise CpiError(f"network ACL {name} was deleted at once", remedy="repeat", retryable=True)
        return made, True

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        rules = [
            _read_entry(direction, entry)
            for direction in ("ingress", "egress")
            for entry in found.row.get(direction) or ()
            if entry.get("action", "").startswith("allow") and entry.get("state", "enabled") != "disabled"
        ]
        return [ListedRule(f"{rule} #{number}", rule) for number, rule in enumerate(rules)]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        def add(entries: list[Row]) -> list[Row]:
            return entries if _has(entries, rule) else [*entries, _entry(rule)]

        self._edit(cid, rule.direction, add)

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        """Of two equal ones, the first stays."""
        rule, number = listed.rule, int(listed.id.rpartition("#")[2])

        def remove(entries: list[Row]) -> list[Row]:
            equal = [entry for entry in entries if _read_entry(rule.direction, entry) == rule]
            kept = equal[:1] if len(equal) > 1 and number else []
            return [entry for entry in entries if entry not in equal] + kept

        self._edit(cid, rule.direction, remove)

    def delete(self, cid: str) -> None:
        """Incus refuses it while a NIC has it."""
        try:
            self.client.change(f"delete network ACL {cid}", "DELETE", f"{_PATH}/{cid}")
        except Refusal as error:
            if not error.is_missing and self.read(cid):
                raise

    def delete_if_unused(self, cid: str) -> None:
        found = self.read(cid)
        if found and not found.row.get("used_by"):
            try:
                self.delete(cid)
            except Refusal:
                if not (self.read(cid) or found).row.get("used_by"):
                    raise

    def _edit(self, cid: str, direction: str, change: Callable[[list[Row]], list[Row]]) -> None:
        def edit(row: Row) -> bool:
            before = list(row.get(direction) or ())
            row[direction] = change(before)
            return bool(row[direction] != before)

        self.client.edit(f"change network ACL {cid}", f"{_PATH}/{cid}", edit)

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark, name = mark_of(row), str(row["name"])
        ours = mark is not None and mark.director == self.client.director_uuid
        is_part = mark is not None and self.parts.is_ours(mark, "security_group", name, name)
        return ExistingSecurityGroup(name, mark if ours and is_part else None, row, name)


def _has(entries: Sequence[Row], rule: SecurityRule) -> bool:
    return any(_read_entry(rule.direction, entry) == rule for entry in entries)


def _entry(rule: SecurityRule) -> Row:
    end = "source" if rule.direction == "ingress" else "destination"
    entry: Row = {"action": "allow", "state": "enabled", end: str(rule.cidr)}
    if rule.protocol == "icmp":
        entry["protocol"] = "icmp6" if rule.family == "IPv6" else "icmp4"
        if rule.ports:
            entry["icmp_type"], entry["icmp_code"] = map(str, rule.ports)
    elif rule.protocol != "any":
        entry["protocol"] = rule.protocol
        if rule.ports:
            entry["destination_port"] = "-".join(map(str, dict.fromkeys(rule.ports)))
    return entry


def _read_entry(direction: str, entry: Row) -> SecurityRule:
    protocol = str(entry.get("protocol") or "any")
    family = "IPv6" if protocol == "icmp6" else None
    cidr = entry.get("source" if direction == "ingress" else "destination") or None
    low, _, high = str(entry.get("destination_port") or "").partition("-")
    ports: tuple[object, object] = (low or None, high or None)
    if protocol.startswith("icmp"):
        protocol, ports = "icmp", (entry.get("icmp_type") or None, entry.get("icmp_code") or None)
    try:
        return make_rule(direction, protocol, ports, cidr, None, family)
    except (InvalidCall, ValueError):  # written by an operator in a form that manifests do not have
        return SecurityRule(direction, protocol, None, str(cidr))
