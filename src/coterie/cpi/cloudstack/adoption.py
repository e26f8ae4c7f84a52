"""Affinity groups that an operator made: used as they are, joined and left, never changed and never deleted."""

from __future__ import annotations

from coterie.cpi.cloudstack.affinity import policy_of
from coterie.cpi.cloudstack.members import Members
from coterie.cpi.contract import ADOPTED_PREFIX, GroupMetadata, GroupMissing, InvalidCall


class Adoption(Members):
    def adopted(self, metadata: GroupMetadata) -> str:
        refuse_guards(metadata)
        name = metadata.options.get("name")
        if not name:
            raise InvalidCall("options.adopt needs options.name", remedy="name the operator's group")
        found = self.affinity_named(str(name))
        if found is None:
            raise GroupMissing(
                f"there is no affinity group {name!r} to adopt",
                remedy="have the operator create it, or leave adopt out to make one of our own",
            )
        if policy_of(found) != metadata.policy:
            raise InvalidCall(
                f"affinity group {name!r} is of type {found['type']}, which is not {metadata.policy}",
                remedy=f"say placement.policy: {policy_of(found)}, or adopt another group",
            )
        return f"{ADOPTED_PREFIX}{found['id']}"


def refuse_guards(metadata: GroupMetadata) -> None:
    if metadata.security_groups:
        raise InvalidCall(
            "an adopted server group is never changed, so it takes no security groups",
            remedy="name them in the VM's cloud_properties.security_groups",
        )
