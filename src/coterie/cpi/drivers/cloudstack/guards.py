"""Security groups of server groups: used if they exist, made if not, and removed by us only if we made them and no
server group and no VM uses them any more."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cpi.contract import CpiError, GroupInUse, Mark, SecurityGroup
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.marking import mark_of
from coterie.cpi.drivers.cloudstack.memos import Memos
from coterie.cpi.drivers.cloudstack.refusals import IN_USE, PARAMETER, Refusal
from coterie.cpi.drivers.cloudstack.rules import has_rule, rule_call


class Guards(Memos):
    def guard_named(self, name: str) -> Row | None:
        rows, _ = self.api.page("listSecurityGroups", 1, securitygroupname=name)
        return rows[0] if rows else None

    def secure(self, wanted: Iterable[SecurityGroup], mark: Mark) -> tuple[str, ...]:
        """Ids of security groups with these names; what is missing is made, with its rules."""
        return tuple(sorted(str(self._secured(one, mark)["id"]) for one in wanted))

    def existing_guards(self, names: Iterable[str]) -> list[str]:
        found = []
        for name in dict.fromkeys(names):
            row = self.guard_named(name)
            if row is None:
                raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
            found.append(str(row["id"]))
        return found

    def release(self, guards: Iterable[str]) -> None:
        """Remove those of these that we made and nobody uses."""
        used = {guard for memo in self.memos().values() for guard in memo.guards}
        for guard in guards:
            row = self.row("listSecurityGroups", guard)
            if row is None or guard in used or not self.our_guard(row):
                continue
            try:
                self.api.call("deleteSecurityGroup", id=guard)
            except Refusal as error:
                if error.code not in (IN_USE, PARAMETER):  # a VM has it still, or it is gone already
                    raise

    def guard_holders(self, guard: str) -> tuple[str, ...]:
        """The server groups whose VMs get it, whoever made it, and whether or not they have a VM now."""
        return tuple(sorted(memo.cid for memo in self.memos().values() if guard in memo.guards))

    def delete_guard(self, guard: str) -> None:
        """The cloud itself refuses it while a VM has it; of server groups it knows nothing."""
        holders = self.guard_holders(guard)
        if holders:
            raise GroupInUse(
                f"security group {guard} belongs to {len(holders)} server groups",
                why=", ".join(holders[:5]),
                remedy="delete them first, or take it out of their security_groups",
            )
        self.api.call("deleteSecurityGroup", id=guard)

    def our_guard(self, row: Row) -> bool:
        return self.guard_mark(row) is not None

    def guard_mark(self, row: Row) -> Mark | None:
        """Its name is the user's word, so the mark is the first word of its description."""
        words = str(row.get("description") or "").split()
        return mark_of(row, self.runtime.director_uuid, words[0]) if words else None

    def _secured(self, wanted: SecurityGroup, mark: Mark) -> Row:
        found = self.guard_named(wanted.name)
        if found:
            return self._completed(found, wanted, mark)
        try:
            made: Row = self.api.call(
                "createSecurityGroup", name=wanted.name, description=f"{mark.name()} {mark.director}"
            )["securitygroup"]
        except Refusal:
            found = self.guard_named(wanted.name)
            if found is None:
                raise
            return self._completed(found, wanted, mark)
        try:
            self._authorize(made, wanted)
        except (Refusal, CpiError):
            self.api.call("deleteSecurityGroup", id=made["id"])
            raise
        return made

    def _completed(self, found: Row, wanted: SecurityGroup, mark: Mark) -> Row:
        """Its maker may have died before the last rule: a first try under this very mark, or somebody who did not get
        as far as to note it for a server group. Any other has its own rules."""
        if self.guard_mark(found) == mark or (self.our_guard(found) and not self.guard_holders(str(found["id"]))):
            self._authorize(found, wanted)
        return found

    def _authorize(self, guard: Row, wanted: SecurityGroup) -> None:
        """Add the rules that it lacks."""
        for rule in wanted.rules:
            command, parameters = rule_call(str(guard["id"]), rule)
            if has_rule(guard, command, parameters):
                continue
            try:
                self.api.run(command, **parameters)
            except Refusal:
                # the job of the first try may have come in between, and CloudStack takes no rule twice
                if not has_rule(self.guard_named(wanted.name) or {}, command, parameters):
                    raise
