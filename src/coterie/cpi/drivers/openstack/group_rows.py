"""Server groups as Nova holds them: names are not unique and can be neither tagged nor changed, so ours are named by
their CID, and of several with one name the one with members counts. What was seen is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMissing, Runtime, is_adopted
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.lookups import Lookups

GROUP_REMEDY = "deploy again so that the group is made anew, or take the VM out of the group"


class GroupRows(Lookups):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self._seen: dict[str, Row] = {}

    def group_row(self, cid: str) -> Row | None:
        """The group behind a server-group CID, as it is now."""
        known = cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else str(self._seen.get(cid, {}).get("id", ""))
        found = self.row("server_group", known)
        if found is None and not is_adopted(cid):
            found = next(iter(self.groups_named(cid)), None)
        self._seen.pop(cid, None)
        if found:
            self._seen[cid] = found
        return found

    def known_group(self, cid: str) -> Row | None:
        """The same without asking again, once it was seen: whoever boots into it learns from Nova that it is gone."""
        return self._seen.get(cid) or self.group_row(cid)

    def groups_named(self, name: str) -> list[Row]:
        """Nova filters nothing and tells no age: of several, the one with members is what all choose."""
        rows = [row for row in self.rows("server_group") if row["name"] == name]
        return sorted(rows, key=lambda row: (not row.get("members"), str(row["id"])))


def policy_of(group: Row) -> str | None:
    return group.get("policy") or next(iter(group.get("policies") or ()), None)


def group_missing(cid: str) -> GroupMissing:
    return GroupMissing(f"server group {cid} is missing", why="it was deleted behind our back", remedy=GROUP_REMEDY)
