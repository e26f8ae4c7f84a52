"""One conductor's share of the work: what its group and drivers allow, and what the ring gives it of that."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ring.members import Member
from coterie.ring.owner import Fleet


class Share:
    """For one state of the fleet; a changed fleet makes new shares, and no row has to be rewritten."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet = fleet
        self._me = next((member for member in fleet.members if member.name == name), None)
        self.whole = self._me is not None and self._alone(self._me)

    def __bool__(self) -> bool:
        """Whether we are in the fleet at all."""
        return self._me is not None

    def holds(self, group: str, driver: str | None, key: str, flow: str | None = None) -> bool:
        """Whether the ring gives us this key. Not needed where `whole` says that everything in reach is ours."""
        return self._fleet.table(group, driver, flow).owner(key) is self._me

    def owner(self, group: str, driver: str | None, key: str, flow: str | None = None) -> str | None:
        """The name of the conductor that the ring gives this key to; None where no conductor can have it."""
        found = self._fleet.table(group, driver, flow).owner(key)
        return found.name if found is not None else None

    def reach(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """What our group and drivers allow, of a table with the columns `conductor_group` and `driver`."""
        me = self._me
        if me is None:
            return sa.false()
        able = sa.or_(table.c.driver.is_(None), table.c.driver.in_(sorted(me.drivers)))
        if not self._fleet.grouped:
            return able
        if not me.every_group:
            return sa.and_(able, table.c.conductor_group == me.group)
        served = [
            sa.and_(table.c.conductor_group == other.group, table.c.driver.in_(sorted(other.drivers & me.drivers)))
            for other in self._fleet.members
            if not other.every_group and other.drivers & me.drivers
        ]
        return sa.and_(able, sa.not_(sa.or_(*served))) if served else able

    def _alone(self, me: Member) -> bool:
        rivals = [other for other in self._fleet.members if other is not me and other.drivers & me.drivers]
        if not self._fleet.grouped:
            return not rivals
        if me.every_group:
            return not any(other.every_group for other in rivals)
        return not any(not other.every_group and other.group == me.group for other in rivals)
