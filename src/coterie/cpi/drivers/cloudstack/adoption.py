"""Affinity groups that an operator made: used as they are, joined and left, never changed and never deleted."""

from __future__ import annotations

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMetadata, GroupMissing, InvalidCall, NameTaken
from coterie.cpi.drivers.cloudstack.affinity import policy_of
from coterie.cpi.drivers.cloudstack.members import Members
from coterie.cpi.kit.checks import refuse_guards, require_group_wish

OPTIONS = ("name", "adopt")


class Adoption(Members):
    def require_nameable(self, metadata: GroupMetadata) -> str | None:
        """The CID of the operator's group that is to be adopted; None where one of our own is to be made."""
        require_group_wish(metadata, self.settings.policies, OPTIONS)
        if metadata.options.get("adopt"):
            return self._adopted_cid(metadata)
        name = metadata.options.get("name")
        if name and self.affinity_named(str(name)):
            raise NameTaken(
                f"affinity group {name!r} exists and is not ours",
                remedy="use another name, or say placement.adopt: true to use the operator's group",
            )
        return None

    def _adopted_cid(self, metadata: GroupMetadata) -> str:
        refuse_guards(metadata.security_groups)
        name = metadata.options.get("name")
        if not name:
            raise InvalidCall("options.adopt needs options.name", remedy="name the operator's group")
        found = self.affinity_named(str(name))
        if found is None:
            raise GroupMissing(
                f"there is no affinity group {name!r} to adopt",
                remedy="have the operator create it, or leave placement.adopt out to make one of our own",
            )
        if policy_of(found) != metadata.policy:
            raise InvalidCall(
                f"affinity group {name!r} is of type {found['type']}, which is not {metadata.policy}",
                remedy=f"say placement.policy: {policy_of(found)}, or adopt another group",
            )
        return f"{ADOPTED_PREFIX}{found['id']}"
