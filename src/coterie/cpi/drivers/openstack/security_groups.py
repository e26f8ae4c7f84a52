"""Security groups as Neutron holds them, and their rules. Neutron takes any number of one name, so one writer at a time
creates those of a name; a name that two have is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, SecurityRule
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.openstack.client import CONFLICT, MISSING, Client, Refusal, Row
from coterie.cpi.drivers.openstack.rows import Rows, age, description, ids, is_uuid, mark_of_description
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class NeutronSecurityGroups:
    """Fills the kit's `SecurityGroupCloud`."""

    client: Client
    rows: Rows
    writer: SingleWriter[Refusal]
    egress_needs_rules: ClassVar[bool] = True

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name or id, in this project."""
        if is_uuid(name):
            return self.read(name)
        rows = self._remove_late(self._list_named(name))
        if len(rows) > 1:
            raise InvalidCall(
                f"{len(rows)} security groups are named {name!r}",
                why=", ".join(ids(rows[:5])),
                remedy="name it by its id, or rename or delete the others",
            )
        return self._existing(rows[0]) if rows else None

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.rows.read("security_group", cid)
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        return [self._existing(row) for row in self.rows.list_parts("security_group", mark)]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        """Neutron takes them all."""

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        body = {"name": name, "description": description(mark)}
        change = self.rows.create_change("security_group", mark, body)
        created = self.writer.submit("security_group", name, change)
        try:
            found = self.read(created.cid)
        except CpiError:
            if not created.new:
                raise
            found = None  # its rules are read again before it is done
        return found or ExistingSecurityGroup(created.cid, mark, name=name), created.new

    def apply_create(self, change: Json, hold: Hold) -> Created:
        """Apply a change of `create` as the only writer of its name: security groups are identified by name, not by
        mark."""
        mark, body = Mark.of_wire(change["mark"]), change["body"]
        known = self.find_named(str(body["name"]))  # refuses a name that two got meanwhile
        if known:
            return Created(known.id, False)
        return create_if_absent(
            lambda: ids(self._list_named(str(body["name"]))),
            lambda: str(self.rows.create("security_group", mark, body)["id"]),
            lambda second: self.rows.delete("security_group", second),
            hold,
        )

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        return [read_rule(row) for row in found.row.get("security_group_rules") or ()]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        body = {"security_group_rule": {**rule_body(rule), "security_group_id": cid}}
        try:
            self.client.send("POST", "add a rule", "network", "/security-group-rules", body)
        except Refusal as error:
            if error.status != CONFLICT or error.is_quota:  # it has the rule already
                raise

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        self.client.delete(f"remove a rule of {cid}", "network", f"/security-group-rules/{listed.id}", (MISSING,))

    def delete(self, cid: str) -> None:
        self.rows.delete("security_group", cid)

    def delete_if_unused(self, cid: str) -> None:
        self.rows.delete("security_group", cid, tolerated=(MISSING, CONFLICT))

    def _remove_late(self, rows: list[Row]) -> list[Row]:
        """Remove duplicates that Neutron created after the call had been given up; the rest, oldest first. Such a call
        never ended in the records, and another call has created what is used."""
        ours = [row for row in rows if self._existing(row).mark]
        if len(ours) < 2:
            return rows
        recorded = [row for row in ours if self._is_recorded(row)]
        if len(recorded) > 1:
            return rows
        late = [row for row in ours if row is not (recorded or ours)[0]]
        for row in late:
            self.delete_if_unused(str(row["id"]))
        return [row for row in rows if row not in late]

    def _is_recorded(self, row: Row) -> bool:
        mark = self._existing(row).mark
        return mark is not None and self.rows.parts.is_recorded(mark, "security_group", str(row["id"]))

    def _list_named(self, name: str) -> list[Row]:
        return sorted(self.rows.list_all("security_group", name=name, project_id=self.client.project), key=age)

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark = mark_of_description(row.get("description"))
        is_ours = mark is not None and mark.director == self.client.director_uuid
        ours = mark if mark and is_ours and self.rows.is_part("security_group", row, mark) else None
        return ExistingSecurityGroup(str(row["id"]), ours, row, str(row["name"]))


def rule_body(rule: SecurityRule) -> Row:
    """A rule as Neutron takes it."""
    low, high = rule.ports or (None, None)
    return {
        "direction": rule.direction,
        "protocol": None if rule.protocol == "any" else rule.protocol,
        "ethertype": rule.family,
        "port_range_min": low,
        "port_range_max": high,
        "remote_ip_prefix": rule.cidr,
        "remote_group_id": rule.group,
    }


def read_rule(row: Row) -> ListedRule:
    """A rule as Neutron lists it; some Neutrons leave the prefix out where a rule applies to every address."""
    ports = (row.get("port_range_min"), row.get("port_range_max"))
    cidr, group, addresses = (row.get(f"remote_{key}") for key in ("ip_prefix", "group_id", "address_group_id"))
    other = f"address group {addresses}" if addresses else None
    rule = make_rule(row["direction"], row.get("protocol"), ports, cidr, group, row.get("ethertype"), other)
    return ListedRule(str(row["id"]), rule)
