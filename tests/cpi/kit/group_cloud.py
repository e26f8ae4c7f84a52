"""A cloud in memory that fills the ports of the kit's server groups, security groups and records."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from coterie.cpi.contract import CpiError, GroupMember, GroupMetadata, InvalidCall, Mark, SecurityRule
from coterie.cpi.kit.group_records import GroupRecord, GroupRecords
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule, SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups

DIRECTOR = "7c9a0f52-3a1d-4c54-9d5e-0a5c1b2d3e4f"


class MemoryRecords:
    limit = 2

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.fails: CpiError | None = None
        self.late: list[GroupRecord] | None = None  # what lists still show

    def list_records(self) -> list[GroupRecord]:
        return list(self.records if self.late is None else self.late)

    def records_of(self, cid: str) -> list[GroupRecord]:
        return [record for record in self.records if record.cid == cid]

    def require_room(self, cid: str) -> None:
        pass

    def add_record(self, record: GroupRecord) -> None:
        if self.fails:
            raise self.fails
        self.records.append(record)

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        assert records
        self.records = [one for one in self.records if one not in records]


class MemorySecurityGroups:
    def __init__(self) -> None:
        self.named: dict[str, ExistingSecurityGroup] = {}
        self.rules: dict[str, list[ListedRule]] = {}  # by id of the security group
        self.calls: list[str] = []
        self.egress_needs_rules = False
        self.used: set[str] = set()
        self.create_fails: dict[str, CpiError] = {}
        self.delete_fails: CpiError | None = None
        self._ids = itertools.count(1)

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        return self.named.get(name)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        return next((one for one in self.named.values() if one.id == cid), None)

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        return [one for one in self.named.values() if one.mark == mark]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        if any(rule.protocol == "wrong" for rule in rules):
            raise InvalidCall("a wrong rule")

    def create(self, name: str, mark: Mark | None) -> tuple[ExistingSecurityGroup, bool]:
        if name in self.create_fails:
            raise self.create_fails[name]
        self.named[name] = ExistingSecurityGroup(f"sg-{next(self._ids)}", mark, name=name)
        return self.named[name], True

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        return list(self.rules.get(found.id, ()))

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        if rule.protocol == "fails":
            raise CpiError("the rule was refused")
        self.calls.append(f"+ {rule}")
        self.rules.setdefault(cid, []).append(ListedRule(f"rule-{len(self.calls)}", rule))

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        self.calls.append(f"- {listed.rule}")
        self.rules[cid].remove(listed)

    def delete(self, cid: str) -> None:
        if cid in self.used:
            raise CpiError(f"{cid} is in use")
        self.named = {name: one for name, one in self.named.items() if one.id != cid}

    def delete_if_unused(self, cid: str) -> None:
        if self.delete_fails:
            raise self.delete_fails
        if cid not in self.used:
            self.delete(cid)


class MemoryServerGroups:
    noun, leave_hint = "server group", ""

    def __init__(self) -> None:
        self.groups: list[ExistingGroup] = []
        self.tagged: dict[str, list[str]] = {}
        self.exchanged: list[tuple[set[str], set[str]]] = []
        self.fails: CpiError | None = None

    def find(self, cid: str) -> ExistingGroup | None:
        return next((one for one in self.groups if cid in (one.name, f"ext-{one.id}")), None)

    find_to_join = find

    def list_named(self, name: str) -> list[ExistingGroup]:
        return [one for one in self.groups if one.name == name]

    list_adoptable = list_named

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        if self.fails:
            raise self.fails
        self.groups.append(ExistingGroup(f"id-{len(self.groups)}", mark.group_cid, metadata.policy))
        return self.groups[-1], True

    def delete(self, group: ExistingGroup) -> None:
        self.groups.remove(group)

    def list_tagged(self, cid: str) -> list[str]:
        return self.tagged.get(cid, [])

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        return [one for group in groups for one in group.members] or self.list_tagged(cid)

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        return [GroupMember(one, None, True) for one in self.list_tagged(cid)], []

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        pass

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        if self.fails:
            raise self.fails
        self.exchanged.append((set(old), set(new)))


class MemoryCloud:
    """The three ports, and the parts of the kit on top of them."""

    def __init__(self) -> None:
        self.store, self.security, self.groups = MemoryRecords(), MemorySecurityGroups(), MemoryServerGroups()
        self.records = GroupRecords(self.store)
        self.security_groups = SecurityGroups(self.security, self.records)
        policies = ("anti-affinity", "soft-anti-affinity")
        self.server_groups = ServerGroups(self.groups, self.security_groups, self.records, policies, DIRECTOR)
        self._intents = itertools.count(1)

    def mark(self) -> Mark:
        return Mark(DIRECTOR, f"{next(self._intents):026d}")
