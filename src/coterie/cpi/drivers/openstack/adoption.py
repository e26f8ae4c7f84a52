"""Groups that an operator made: used as they are, joined and left, never changed and never deleted."""

from __future__ import annotations

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMetadata, GroupMissing, InvalidCall, NameTaken
from coterie.cpi.drivers.openstack.group_rows import policy_of
from coterie.cpi.drivers.openstack.members import Members
from coterie.cpi.kit.checks import refuse_guards, require_group_wish

OPTIONS = ("name", "adopt")


class Adoption(Members):
    def require_nameable(self, metadata: GroupMetadata) -> str | None:
        """The CID of the operator's group that is to be adopted; None where one of our own is to be made."""
        require_group_wish(metadata, self.settings.policies, OPTIONS)
        if metadata.options.get("adopt"):
            return self._adopted_cid(metadata)
        name = metadata.options.get("name")
        if name and self.groups_named(str(name)):
            raise NameTaken(
                f"server group {name!r} exists and is not ours",
                remedy="use another name, or say placement.adopt: true to use the operator's group",
            )
        return None

    def _adopted_cid(self, metadata: GroupMetadata) -> str:
        """An operator's group is used as it is, by its id; Nova lets many have its name."""
        refuse_guards(metadata.security_groups)
        name = metadata.options.get("name")
        if not name:
            raise InvalidCall("options.adopt needs options.name", remedy="name the operator's group")
        rows = [row for row in self.rows("server_group") if str(name) in (row["name"], row["id"])]
        if len(rows) != 1:
            raise GroupMissing(
                f"{len(rows)} server groups are named {name!r}, so there is not one to adopt",
                why=", ".join(str(row["id"]) for row in rows[:5]),
                remedy="have the operator create it, give its id as the name, or leave placement.adopt out",
            )
        if policy_of(rows[0]) != metadata.policy:
            raise InvalidCall(
                f"server group {name!r} has policy {policy_of(rows[0])}, not {metadata.policy}",
                remedy=f"say placement.policy: {policy_of(rows[0])}, or adopt another group",
            )
        return f"{ADOPTED_PREFIX}{rows[0]['id']}"
