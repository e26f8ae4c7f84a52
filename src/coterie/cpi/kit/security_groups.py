"""Security groups of server groups: created with their rules, changed in place where the rules differ, and deleted only
if we created them and no server group and no VM uses them. One that is not ours is used only where it is adopted.

A driver fills `SecurityGroupCloud`, how its cloud holds them. Which server group has which: `group_records`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from coterie.cpi.contract import (
    Changed,
    CpiError,
    GroupInUse,
    GroupMissing,
    Mark,
    NameTaken,
    OutcomeUnknown,
    RuleChanges,
    SecurityGroup,
    SecurityRule,
    compare_rules,
    read_rules,
)
from coterie.cpi.contract.rules import EVERYTHING_OUT
from coterie.cpi.kit.group_records import GroupRecords
from coterie.cpi.kit.parts import Parts
from coterie.slotted import dataclass, field

_TRIES = 5  # looks at the rules of a security group that other calls change at the same time


@dataclass(frozen=True, slots=True)
class ExistingSecurityGroup:
    """A security group as the cloud lists it. `mark`: the one it bears if this Director created it, else None.
    `row`: the cloud's own answer, for the driver that gave it."""

    id: str
    mark: Mark | None
    row: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule as the cloud holds it; `rule.group` is the id of a security group."""

    id: str
    rule: SecurityRule


class SecurityGroupCloud(Protocol):
    """How a cloud holds security groups. Its methods raise `CpiError`s only; a driver's refusal is one too."""

    @property
    def egress_needs_rules(self) -> bool:
        """Whether a security group without egress rules lets nothing out."""

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name; raises where several could be meant."""

    def read(self, cid: str) -> ExistingSecurityGroup | None: ...

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]: ...

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        """Refuse rules that this cloud cannot have."""

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        """Without rules. False where another call created one of this name meanwhile: then that one is answered."""

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        """From the cloud's answer, without another request; the same rule may be there twice after a race."""

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        """There already is fine."""

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        """Gone already is fine."""

    def delete(self, cid: str) -> None:
        """Gone already is fine; raises while a VM uses it."""

    def delete_if_unused(self, cid: str) -> None:
        """The same, but leaves one that a VM uses."""


class SecurityGroups:
    def __init__(self, cloud: SecurityGroupCloud, records: GroupRecords, parts: Parts | None = None) -> None:
        self._cloud = cloud
        self._records = records
        self._parts = parts or Parts()

    def ensure(self, requests: Sequence[SecurityGroup], mark: Mark, held: Collection[str] = ()) -> tuple[str, ...]:
        """Ids of security groups with these names, each with its rules; what is missing is created. All of them are
        created before the first rule, since rules may name them. `held`: ids of those that the server group has."""
        for request in requests:
            self._cloud.require_rules(read_rules(request.rules or ()))
        created: list[str] = []
        try:
            found = {request.name: self._find_or_create(request, mark, held, created) for request in requests}
            managed = [one for one in requests if one.rules is not None and not one.adopt and found[one.name].mark]
            ids = self._ids_for_rules(managed, {name: one.id for name, one in found.items()})
            for request in managed:
                self._change_rules(found[request.name], [rule.with_group(ids) for rule in _requested(request)])
        except OutcomeUnknown:
            raise  # something may have been created, and nothing that it needs may go
        except CpiError:
            with suppress(CpiError):  # the first error counts; what is left is found by its mark
                self.release(created, mark.group_cid)
            raise
        return tuple(sorted(one.id for one in found.values()))

    def require_usable(self, requests: Iterable[SecurityGroup], held: Collection[str] = ()) -> None:
        """Refuse what `ensure` would refuse because of the security groups that are there, or of rules that this cloud
        cannot have."""
        for request in requests:
            self._cloud.require_rules(read_rules(request.rules or ()))
            self._find_usable(request, held)

    def require_existing(self, names: Iterable[str]) -> list[str]:
        """Ids of security groups that must be there already."""
        found = []
        for name in dict.fromkeys(names):
            one = self._cloud.find_named(name)
            if one is None:
                raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
            found.append(one.id)
        return found

    def release(self, cids: Iterable[str], server_group: str) -> None:
        """Delete those of these that we created and nothing uses. `server_group`: the CID of the one that had them."""
        wanted = list(cids)
        used = self._records.security_groups(server_group) if wanted else set()
        for cid in wanted:
            found = None if cid in used else self._cloud.read(cid)
            if found and found.mark:
                self._cloud.delete_if_unused(cid)

    def delete(self, cid: str) -> None:
        """The cloud itself refuses it while a VM has it, but knows nothing of server groups."""
        found = self._cloud.read(cid)
        if found and found.mark is None:
            raise Changed(
                f"security group {cid} is not ours", why="it bears no mark, or a copied one", remedy="leave it"
            )
        holders = self._records.holders().get(cid)
        if holders:
            raise GroupInUse(
                f"security group {cid} belongs to {len(holders)} server groups",
                why=", ".join(holders[:5]),
                remedy="delete them first, or take it out of their security_groups",
            )
        self._cloud.delete(cid)

    def list_rules(self, found: Sequence[ExistingSecurityGroup]) -> dict[str, tuple[SecurityRule, ...]]:
        """Of security groups that were read, by id; the other end of a rule by its name, as far as it is there."""
        listed = {one.id: [each.rule for each in self._cloud.rules_of(one)] for one in found}
        names = {one.id: one.name for one in found}
        for other in {rule.group for rules in listed.values() for rule in rules if rule.group} - names.keys():
            end = self._cloud.read(other)
            names.update({end.id: end.name} if end else {})
        return {cid: tuple(rule.with_group(names) for rule in rules) for cid, rules in listed.items()}

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        return self._cloud.read(cid)

    def holders(self) -> dict[str, tuple[str, ...]]:
        """Of each security group the CIDs of the server groups that have it."""
        return self._records.holders()

    def created_for(self, mark: Mark) -> set[str]:
        """Ids of those that bear this mark: what was still in use when it should have gone, or an interrupted call
        left."""
        return {one.id for one in self._cloud.list_marked(mark)}

    def _find_or_create(
        self, request: SecurityGroup, mark: Mark, held: Collection[str], created: list[str]
    ) -> ExistingSecurityGroup:
        found = self._find_usable(request, held)
        if found:
            if found.mark == mark:
                self._parts.record_unfinished(mark, "security_group", found.name, found.id)
            return found
        self._record_older(mark, held)
        found, is_new = self._cloud.create(request.name, mark)
        if is_new:
            created.append(found.id)
        else:
            require_usable(request, is_there=True, is_ours=found.mark is not None)
        return found

    def _record_older(self, mark: Mark, held: Collection[str]) -> None:
        """Those of a server group that an older release created are recorded before the first new one: from then on,
        only what is recorded is ours."""
        for cid in held if not self._parts.has_any(mark) else ():
            found = self._cloud.read(cid)
            if found and found.mark == mark:
                self._parts.record(mark, "security_group", found.name, cid)

    def _find_usable(self, request: SecurityGroup, held: Collection[str]) -> ExistingSecurityGroup | None:
        found = self._cloud.find_named(request.name)
        is_ours = found is not None and (found.mark is not None or found.id in held)
        require_usable(request, is_there=found is not None, is_ours=is_ours)
        return found

    def _change_rules(self, found: ExistingSecurityGroup, requested: Sequence[SecurityRule]) -> None:
        """Rules come before others go. Of a rule that two calls added at once, the one with the lowest id stays."""
        seen: ExistingSecurityGroup | None = found
        for _ in range(_TRIES):
            if seen is None:
                break
            listed = sorted(self._cloud.rules_of(seen), key=lambda one: one.id)
            changes = self._compare([one.rule for one in listed], requested)
            going = [one for n, one in enumerate(listed) if one.rule in changes.go or _is_double(listed, n)]
            if not changes.come and not going:
                return
            for rule in changes.come:
                self._cloud.add_rule(found.id, rule)
            for one in going:
                self._cloud.remove_rule(found.id, one)
            seen = self._cloud.read(found.id)
        raise CpiError(
            f"security group {found.name or found.id} is changed or deleted by others at the same time",
            remedy="find out what changes it, then repeat",
            retryable=True,
        )

    def _compare(self, present: Sequence[SecurityRule], requested: Sequence[SecurityRule]) -> RuleChanges:
        changes = compare_rules(present, requested)
        left = [rule for rule in (*present, *requested) if rule.direction == "egress" and rule not in changes.go]
        if left or not self._cloud.egress_needs_rules or not any(rule.direction == "egress" for rule in changes.go):
            return changes
        return RuleChanges((*changes.come, *EVERYTHING_OUT), changes.go)  # as in a new group of this cloud

    def _ids_for_rules(self, requests: Sequence[SecurityGroup], known: Mapping[str, str]) -> dict[str, str]:
        named = {rule.group for request in requests for rule in _requested(request) if rule.group}
        return {**known, **{name: self._other_end(name) for name in sorted(named - known.keys())}}

    def _other_end(self, name: str) -> str:
        found = self._cloud.find_named(name)
        if found:
            return found.id
        raise CpiError(
            f"a security rule names the security group {name!r}, which is not there",
            remedy="create it; one that another server group brings is there when that one is made: then repeat",
            retryable=True,
        )


def require_usable(request: SecurityGroup, *, is_there: bool, is_ours: bool) -> None:
    """Refuse a name that is taken, or that there is nothing to adopt of."""
    if request.adopt and not is_there:
        raise GroupMissing(
            f"there is no security group {request.name!r} to adopt",
            remedy="have the operator create it, or leave adopt out to make one of our own",
            details={"field": "security_groups"},
        )
    if is_there and not is_ours and not request.adopt:
        raise NameTaken(
            f"security group {request.name!r} exists and is not ours",
            remedy="use another name, or say adopt: true under security_groups to use the operator's group",
            details={"field": "security_groups"},
        )


def _requested(request: SecurityGroup) -> tuple[SecurityRule, ...]:
    return read_rules(request.rules or ())


def _is_double(listed: Sequence[ListedRule], n: int) -> bool:
    """Whether the same rule stands before it under another id."""
    return any(one.rule == listed[n].rule and one.id != listed[n].id for one in listed[:n])
