"""From a key to its conductor: one ring per "<group>:<driver>", built when first used, for one state of the fleet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from coterie.ring import hash as hashing
from coterie.ring.members import Member, fold, groups_count, holds_groups
from coterie.ring.refusals import DriverUnserved, FleetEmpty, GroupUnserved

_REMEMBERED = 200_000  # owners kept per ring, before they are forgotten all at once


class Table:
    """One ring and the owners that were looked up on it."""

    def __init__(self, members: tuple[Member, ...]) -> None:
        self.members = members
        self.algorithm = hashing.common_algorithm(one.algorithm for one in members)  # all must compute the same owner
        self._by_name = {member.name: member for member in members}
        self._ring = hashing.build(self.algorithm, {one.name: one.weight for one in members}) if members else None
        self._known: dict[str, Member] = {}

    def owner(self, key: str) -> Member | None:
        if self._ring is None:
            return None
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._by_name[self._ring.owner(key)]
        return found


class Fleet:
    """An unchanging set of live members. A change of membership makes a new one."""

    def __init__(self, members: Iterable[Member], pinned: str | None = None) -> None:
        """`pinned`: the release that the process behaves as which asks; a Director has no row among the members."""
        self.members = tuple(sorted(members, key=lambda member: member.name))
        self.grouped = groups_count(self.members) and (pinned is None or holds_groups(pinned))
        self._serving: dict[str, list[Member]] = defaultdict(list)
        self._stand_ins: dict[str, list[Member]] = defaultdict(list)
        self._tables: dict[tuple[str, str | None, str | None], Table] = {}
        for member in self.members:
            self._enter(member)

    def key(self, group: str, driver: str) -> str:
        """What chooses the ring. The node's uuid chooses the place on it."""
        return f"{fold(group)}:{driver}" if self.grouped else driver

    def keys(self) -> dict[str, tuple[Member, ...]]:
        """Every key that has members of its own, with these."""
        return {key: tuple(members) for key, members in sorted(self._serving.items())}

    def table(self, group: str, driver: str | None, flow: str | None = None) -> Table:
        """The ring of the conductors that may run such work. A driver of None: all of the group."""
        asked = (fold(group), driver, flow)
        found = self._tables.get(asked)
        if found is None:
            able = tuple(member for member in self._able(group, driver) if member.knows(flow))
            found = self._tables[asked] = Table(able)
        return found

    def owner(self, group: str, driver: str | None, key: str, flow: str | None = None) -> Member:
        """The one conductor for this key; a typed refusal when there is none."""
        found = self.table(group, driver, flow).owner(key)
        if found is None:
            raise self.refusal(group, driver)
        return found

    def require(self, group: str, driver: str) -> None:
        """Refuse work that no conductor could run."""
        if not self.table(group, driver).members:
            raise self.refusal(group, driver)

    def refusal(self, group: str, driver: str | None) -> FleetEmpty | GroupUnserved | DriverUnserved:
        if not self.members:
            return FleetEmpty()
        return GroupUnserved(fold(group), driver) if self.grouped else DriverUnserved(driver)

    def _able(self, group: str, driver: str | None) -> list[Member]:
        if driver is None:
            return [one for one in self.members if not self.grouped or one.every_group or one.group == fold(group)]
        return self._serving.get(self.key(group, driver), []) or self._stand_ins.get(driver, [])

    def _enter(self, member: Member) -> None:
        for driver in member.drivers:
            if member.every_group and self.grouped:
                self._stand_ins[driver].append(member)
            else:
                self._serving[self.key(member.group, driver)].append(member)
