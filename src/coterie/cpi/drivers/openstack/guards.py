"""Security groups of server groups: used if they exist, made if not, and removed by us only if we made them and no
server group and no port uses them any more. Neutron takes any number of one name; two of a name are nobody's choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coterie.cpi.contract import CpiError, GroupInUse, InvalidCall, Json, Mark, SecurityGroup
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.cloud import is_uuid
from coterie.cpi.drivers.openstack.marking import description, mark_of_description
from coterie.cpi.drivers.openstack.memos import Memos
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal
from coterie.cpi.drivers.openstack.rules import has_rule, rule_bodies


class Guards(Memos):
    def guard_named(self, name: str) -> Row | None:
        """By name or id, in this project."""
        if is_uuid(name):
            return self.row("security_group", name)
        rows = list(self.rows("security_group", name=name, project_id=self.api.project))
        if len(rows) > 1:
            raise InvalidCall(
                f"{len(rows)} security groups are named {name!r}",
                why=", ".join(str(row["id"]) for row in rows[:5]),
                remedy="name it by its id, or rename or delete the others",
            )
        return rows[0] if rows else None

    def secure(self, wanted: Sequence[SecurityGroup], mark: Mark) -> tuple[str, ...]:
        """Ids of security groups with these names; what is missing is made, with its rules. All are made before the
        first rule, since rules may name them."""
        named = [str(rule["group"]) for one in wanted for rule in one.rules if rule.get("group")]
        for one in wanted:  # a mistake is told before anything is made
            _bodies(one, dict.fromkeys(named, ""))
        found = {one.name: self._secured(one.name, mark) for one in wanted}
        try:
            ids = {name: str(row["id"]) for name, (row, _) in found.items()}
            ids |= {name: self._other_end(name) for name in named if name not in ids}
            for one in wanted:
                row, made = found[one.name]
                if made or self._unfinished(row, mark):
                    self._authorize(row, _bodies(one, ids))
        except (Refusal, CpiError):
            self.release([str(row["id"]) for row, made in found.values() if made])
            raise
        return tuple(sorted(str(row["id"]) for row, _ in found.values()))

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
            row = self.row("security_group", guard)
            if row is None or guard in used or not self.our_guard(row):
                continue
            self._remove_guard(guard, tolerated=(MISSING, CONFLICT))  # gone already, or a port has it still

    def guard_holders(self, guard: str) -> tuple[str, ...]:
        """The server groups whose VMs get it, whoever made it, and whether or not they have a VM now."""
        return tuple(sorted(memo.cid for memo in self.memos().values() if guard in memo.guards))

    def delete_guard(self, guard: str) -> None:
        """The cloud itself refuses it while a port has it; of server groups it knows nothing."""
        holders = self.guard_holders(guard)
        if holders:
            raise GroupInUse(
                f"security group {guard} belongs to {len(holders)} server groups",
                why=", ".join(holders[:5]),
                remedy="delete them first, or take it out of their security_groups",
            )
        self._remove_guard(guard, tolerated=(MISSING,))

    def our_guard(self, row: Row) -> bool:
        mark = mark_of_description(row.get("description"))
        return mark is not None and mark.director == self.runtime.director_uuid

    def effect(self, domain: str, change: Json) -> Json:
        """As the only writer of its name: a security group is one by its name, not by its mark."""
        if change["kind"] != "security_group":
            return super().effect(domain, change)
        found = self.guard_named(str(change["body"]["name"]))
        if found:
            return {"id": found["id"], "made": False}
        self.runtime.coordinator.hold(domain)
        made = str(self.made("security_group", Mark.of_wire(change["mark"]), change["body"])["id"])
        rows = self.rows("security_group", name=change["body"]["name"], project_id=self.api.project)
        return self.elected("security_group", made, sorted(rows, key=lambda row: (str(row["created_at"]), row["id"])))

    def _unfinished(self, row: Row, mark: Mark) -> bool:
        """Its maker may have died before the last rule: a first try under this very mark, or somebody who did not get
        as far as to note it for a server group. Any other has its own rules."""
        if mark_of_description(row.get("description")) == mark:
            return True
        return self.our_guard(row) and not self.guard_holders(str(row["id"]))

    def _secured(self, name: str, mark: Mark) -> tuple[Row, bool]:
        """The security group of this name, and whether this very call made it."""
        found = self.guard_named(name)
        if found:
            return found, False
        body = {"name": name, "description": description(mark)}
        outcome = self.submit("security_group", name, {"kind": "security_group", "mark": mark.wire(), "body": body})
        return self.row("security_group", str(outcome["id"])) or {"id": outcome["id"]}, bool(outcome["made"])

    def _other_end(self, name: str) -> str:
        row = self.guard_named(name)
        if row:
            return str(row["id"])
        raise CpiError(
            f"a security rule names the security group {name!r}, which is not there",
            remedy="create it; one that another server group brings is there when that one is made: then repeat",
            retryable=True,
        )

    def _authorize(self, guard: Row, bodies: list[Row]) -> None:
        """Add the rules that it lacks."""
        for body in bodies:
            if not has_rule(guard, body):
                self._add_rule({**body, "security_group_id": guard["id"]})

    def _add_rule(self, body: Row) -> None:
        try:
            self.api.send("POST", "add a rule", "network", "/security-group-rules", {"security_group_rule": body})
        except Refusal as error:
            if error.status != CONFLICT or error.quota:  # it has the rule already
                raise

    def _remove_guard(self, guard: str, tolerated: tuple[int, ...]) -> None:
        try:
            self.api.send("DELETE", f"delete security group {guard}", "network", f"/security-groups/{guard}")
        except Refusal as error:
            if error.status not in tolerated:
                raise


def _bodies(wanted: SecurityGroup, groups: Mapping[str, str]) -> list[Row]:
    return [body for rule in wanted.rules for body in rule_bodies(rule, groups)]
