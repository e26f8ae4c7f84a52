"""Security groups of server groups: used if they exist, created if not, and deleted only if we created them and no
server group and no VM uses them.

A driver fills `SecurityGroupCloud`, how its cloud holds them. Which server group has which: `group_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from coterie.cpi.contract import CpiError, GroupInUse, InvalidCall, Mark, OutcomeUnknown, SecurityGroup
from coterie.cpi.kit.group_records import GroupRecords


@dataclass(frozen=True, slots=True)
class ExistingSecurityGroup:
    """A security group as the cloud lists it. `mark`: the one it bears if this Director created it, else None.
    `row`: the cloud's own answer, for the driver that gave it."""

    id: str
    mark: Mark | None
    row: Mapping[str, Any] = field(default_factory=dict)


class SecurityGroupCloud(Protocol):
    """How a cloud holds security groups. Its methods raise `CpiError`s only; a driver's refusal is one too."""

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name; raises where several could be meant."""

    def read(self, cid: str) -> ExistingSecurityGroup | None: ...

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]: ...

    def require_rules(self, request: SecurityGroup) -> None:
        """Refuse rules that this cloud cannot have."""

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        """Without rules. False where another call created one of this name meanwhile: then that one is answered."""

    def add_missing_rules(self, found: ExistingSecurityGroup, request: SecurityGroup, ids: Mapping[str, str]) -> None:
        """`ids`: of the security groups that rules name as their other end, by name."""

    def delete(self, cid: str) -> None:
        """Gone already is fine; raises while a VM uses it."""

    def delete_if_unused(self, cid: str) -> None:
        """The same, but leaves one that a VM uses."""


class SecurityGroups:
    def __init__(self, cloud: SecurityGroupCloud, records: GroupRecords) -> None:
        self._cloud = cloud
        self._records = records

    def ensure(self, requests: Sequence[SecurityGroup], mark: Mark) -> tuple[str, ...]:
        """Ids of security groups with these names; what is missing is created, with its rules. All of them are created
        before the first rule, since rules may name them."""
        for request in requests:
            self._cloud.require_rules(request)
        created: list[str] = []
        try:
            found = {request.name: self._find_or_create(request.name, mark, created) for request in requests}
            ids = self._ids_for_rules(requests, {name: one.id for name, one in found.items()})
            for request in requests:
                if found[request.name].id in created or self._is_unfinished(found[request.name], mark):
                    self._cloud.add_missing_rules(found[request.name], request, ids)
        except OutcomeUnknown:
            raise  # something may have been created, and nothing that it needs may go
        except CpiError:
            with suppress(CpiError):  # the first error counts; what is left is found by its mark
                self.release(created)
            raise
        return tuple(sorted(one.id for one in found.values()))

    def require_existing(self, names: Iterable[str]) -> list[str]:
        """Ids of security groups that must be there already."""
        found = []
        for name in dict.fromkeys(names):
            one = self._cloud.find_named(name)
            if one is None:
                raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
            found.append(one.id)
        return found

    def release(self, cids: Iterable[str]) -> None:
        """Delete those of these that we created and nothing uses."""
        wanted = list(cids)
        used = self._records.security_groups() if wanted else set()
        for cid in wanted:
            found = None if cid in used else self._cloud.read(cid)
            if found and found.mark:
                self._cloud.delete_if_unused(cid)

    def delete(self, cid: str) -> None:
        """The cloud itself refuses it while a VM has it, but knows nothing of server groups."""
        holders = self._records.holders(cid)
        if holders:
            raise GroupInUse(
                f"security group {cid} belongs to {len(holders)} server groups",
                why=", ".join(holders[:5]),
                remedy="delete them first, or take it out of their security_groups",
            )
        self._cloud.delete(cid)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        return self._cloud.read(cid)

    def holders(self, cid: str) -> tuple[str, ...]:
        """CIDs of the server groups that have it."""
        return self._records.holders(cid)

    def created_for(self, mark: Mark) -> set[str]:
        """Ids of those that bear this mark: what was still in use when it should have gone, or an interrupted call
        left."""
        return {one.id for one in self._cloud.list_marked(mark)}

    def _find_or_create(self, name: str, mark: Mark, created: list[str]) -> ExistingSecurityGroup:
        found = self._cloud.find_named(name)
        if found:
            return found
        found, is_new = self._cloud.create(name, mark)
        if is_new:
            created.append(found.id)
        return found

    def _ids_for_rules(self, requests: Sequence[SecurityGroup], known: Mapping[str, str]) -> dict[str, str]:
        named = [str(rule["group"]) for request in requests for rule in request.rules if rule.get("group")]
        return {**known, **{name: self._other_end(name) for name in named if name not in known}}

    def _other_end(self, name: str) -> str:
        found = self._cloud.find_named(name)
        if found:
            return found.id
        raise CpiError(
            f"a security rule names the security group {name!r}, which is not there",
            remedy="create it; one that another server group brings is there when that one is made: then repeat",
            retryable=True,
        )

    def _is_unfinished(self, found: ExistingSecurityGroup, mark: Mark) -> bool:
        """Whether a call may have ended before the last rule: an earlier one under this very mark, or one of ours that
        did not get as far as its record. Any other security group keeps the rules that it has."""
        return found.mark is not None and (found.mark == mark or not self._records.holders(found.id))


def read_ports(rule: Mapping[str, Any]) -> tuple[int, int]:
    """The first and last port of a rule, written like 80 or 8000-8080; all of them where the rule names none."""
    text = str(rule.get("ports") or "1-65535")
    low, _, high = text.partition("-")
    if not low.strip().isdecimal() or (high and not high.strip().isdecimal()):
        raise InvalidCall(f"a security rule has ports {text!r}", remedy="write them like 80 or 8000-8080")
    return int(low), int(high or low)
