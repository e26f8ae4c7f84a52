"""Affinity groups as CloudStack holds them: found by name or id, made once, deleted only when nobody is in them."""

from __future__ import annotations

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMissing, NameTaken, is_adopted
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.marking import group_mark_of
from coterie.cpi.drivers.cloudstack.properties import GROUP_TYPES
from coterie.cpi.drivers.cloudstack.refusals import Refusal

POLICIES = {kind: policy for policy, kind in GROUP_TYPES.items()}
GROUP_REMEDY = "deploy again so that the group is made anew, or take the VM out of the group"


class Affinity(Lookups):
    def affinity_group(self, cid: str) -> Row | None:
        """The group behind a server-group CID: by its id where it is an operator's, else by its name."""
        if is_adopted(cid):
            return self.row("listAffinityGroups", cid.removeprefix(ADOPTED_PREFIX))
        return self.affinity_named(cid)

    def affinity_named(self, name: str) -> Row | None:
        """Names are unique in an account."""
        rows, _ = self.api.page("listAffinityGroups", 1, name=name)
        return next((row for row in rows if row["name"] == name), None)

    def make_affinity_group(self, cid: str, policy: str, description: str) -> Row:
        """Made or found again. Of two who make it at once, CloudStack refuses one, not always with the same words:
        so after any refusal the group is looked for."""
        kind = GROUP_TYPES[policy]
        found = self.affinity_named(cid)
        if found is None:
            try:
                made = self.api.run("createAffinityGroup", name=cid, type=kind, description=description[:255])
                found = made.get("affinitygroup")
            except Refusal:
                found = self.affinity_named(cid)
                if found is None:
                    raise
        if found is None:
            raise GroupMissing(f"affinity group {cid} was made and is not there", remedy="repeat")
        if found["type"] != kind:
            # never deleted and made anew: somebody may be in it
            raise NameTaken(
                f"affinity group {cid} is a group of type {found['type']}, not {kind}",
                remedy="find out who made it; recreate the server group under a new name",
            )
        return found

    def ours(self, group: Row) -> bool:
        return group_mark_of(group, self.runtime.director_uuid) is not None


def policy_of(group: Row) -> str | None:
    return POLICIES.get(str(group.get("type")))


def group_missing(cid: str) -> GroupMissing:
    return GroupMissing(f"server group {cid} is missing", why="it was deleted behind our back", remedy=GROUP_REMEDY)
