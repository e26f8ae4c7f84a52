"""Security groups as network ACLs. An ACL has a name and one list of rules for each direction, which is written whole:
under its etag, so that no rule of another writer is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from coterie.cpi.contract import CpiError, InvalidCall, Mark, NotSupported, SecurityRule
from coterie.cpi.contract.rules import EVERYTHING_OUT, make_rule
from coterie.cpi.drivers.incus.client import Client, Refusal, Row, look_after
from coterie.cpi.drivers.incus.marks import mark_config, mark_of, of_mark
from coterie.cpi.drivers.incus.placement import Members
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.slotted import dataclass

_PATH = "/network-acls"
_ON_BRIDGES = "network_bridge_acl_devices"  # the extension of the API by which NICs on bridges have ACLs
_FAR_ENDS = {"ingress": "source", "egress": "destination"}
_PLAIN = ("action", "state", "description", "protocol", "destination_port", "icmp_type", "icmp_code")


@dataclass(frozen=True, slots=True)
class NetworkAcls:
    """Fills the kit's `SecurityGroupCloud`. An ACL lets out nothing that no rule allows."""

    client: Client
    members: Members
    parts: Parts
    egress_needs_rules: ClassVar[bool] = True

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """Of every security group that a VM is to have, before anything is made for it."""
        if not self.members.offers(_ON_BRIDGES):
            raise NotSupported(
                f"security group {name!r} cannot be given to a VM",
                why="this server, as LXD, has no ACLs of NICs on bridges",
                remedy="leave the security groups out, and set rules on the network itself",
            )
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
        return [one for direction in _FAR_ENDS for one in _read(direction, found.row.get(direction) or ())]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        def add(entries: list[Row]) -> list[Row]:
            is_there = any(one.rule == rule for one in _read(rule.direction, entries))
            return entries if is_there else [*entries, _entry(rule)]

        self._edit(cid, rule.direction, add)

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        """Of equal ones the first stays, unless it is the one to remove. What else an entry lets through goes on."""

        def remove(entries: list[Row]) -> list[Row]:
            staying, kept = int(not listed.id.endswith("#0")), []
            for entry in entries:
                parts, left = _split(listed.rule.direction, entry), []
                for part in parts:
                    is_equal = _read_entry(listed.rule.direction, part) == listed.rule
                    staying -= is_equal
                    if not is_equal or staying >= 0:
                        left.append(part)
                kept += [entry] if left == parts else left
            return [one for number, one in enumerate(kept) if one not in kept[:number]]  # Incus refuses repeats

        self._edit(cid, listed.rule.direction, remove)

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


def _entry(rule: SecurityRule) -> Row:
    entry: Row = {"action": "allow", "state": "enabled", _FAR_ENDS[rule.direction]: str(rule.cidr)}
    if rule.protocol == "icmp":
        entry["protocol"] = "icmp6" if rule.family == "IPv6" else "icmp4"
        if rule.ports:
            entry["icmp_type"], entry["icmp_code"] = map(str, rule.ports)
    elif rule.protocol != "any":
        entry["protocol"] = rule.protocol
        if rule.ports:
            entry["destination_port"] = "-".join(map(str, dict.fromkeys(rule.ports)))
    return entry


def _read(direction: str, entries: Sequence[Row]) -> list[ListedRule]:
    """Equal ones are numbered."""
    seen: Counter[SecurityRule] = Counter()
    found = []
    for rule in [_read_entry(direction, part) for entry in entries for part in _split(direction, entry)]:
        found.append(ListedRule(f"{rule} #{seen[rule]}", rule))
        seen[rule] += 1
    return found


def _split(direction: str, entry: Row) -> list[Row]:
    """What lets the same through, with one other end and one range of ports each. No end is everything of both
    families."""
    if not _is_plain(direction, entry):
        return [entry]
    far, protocol = _FAR_ENDS[direction], str(entry.get("protocol") or "")
    families = [one for one in EVERYTHING_OUT if not protocol.startswith("icmp") or protocol[-1] == one.family[-1]]
    ends = _words(entry, far) or [str(one.cidr) for one in families]
    ports = [{"destination_port": one} for one in _words(entry, "destination_port")]
    return [{**entry, far: end, **one} for end in ends for one in ports or [{}]]


def _is_plain(direction: str, entry: Row) -> bool:
    """Whether it does no more and no less than entries of ours with other ends and ports; logged or not."""
    says = {key for key, value in entry.items() if value}
    is_allowed = entry.get("action") == "allow" and entry.get("state") != "disabled"
    return is_allowed and says <= {*_PLAIN, _FAR_ENDS[direction]} and ("icmp_type" in says) == ("icmp_code" in says)


def _read_entry(direction: str, entry: Row) -> SecurityRule:
    """What no manifest can say was written by people: it is told in the words of `incus network acl rule remove`."""
    protocol = str(entry.get("protocol") or "any")
    low, _, high = str(entry.get("destination_port") or "").partition("-")
    ports: tuple[object, object] = (low or None, high or None)
    if protocol.startswith("icmp"):
        protocol, ports = "icmp", (entry.get("icmp_type"), entry.get("icmp_code"))
    if _is_plain(direction, entry):
        with suppress(InvalidCall, ValueError):  # ranges of addresses, names of what Incus knows
            return make_rule(direction, protocol, ports, entry.get(_FAR_ENDS[direction]))
    said = {key: value for key, value in sorted(entry.items()) if value and key != "description"}
    words = " ".join(f"{key}={value}" for key, value in said.items() if value != "enabled")
    return make_rule(direction, protocol, other=f"entry {words}")


def _words(entry: Row, key: str) -> list[str]:
    return [word for one in str(entry.get(key) or "").split(",") if (word := one.strip())]
