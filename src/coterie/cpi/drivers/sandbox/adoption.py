"""Groups that an operator made: used as they are, joined and left, never changed and never deleted."""

from __future__ import annotations

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMissing, InvalidCall, NameTaken
from coterie.cpi.drivers.sandbox.group_tags import GroupWish
from coterie.cpi.drivers.sandbox.holders import Holders
from coterie.cpi.kit.checks import refuse_guards


class Adoption(Holders):
    def require_nameable(self, wish: GroupWish) -> str | None:
        """The CID of the operator's group that is to be adopted; None where one of our own is to be made."""
        if wish.adopt:
            return self._adopted_cid(wish)
        if wish.name and self.foreign_named(wish.name):
            raise NameTaken(
                f"server group {wish.name!r} exists and is not ours",
                remedy="use another name, or say placement.adopt: true to use the operator's group",
            )
        return None

    def _adopted_cid(self, wish: GroupWish) -> str:
        if not wish.name:
            raise InvalidCall("options.adopt needs options.name", remedy="name the operator's group")
        refuse_guards(wish.security_groups)
        found = self.foreign_named(wish.name)
        if not found:
            raise GroupMissing(
                f"there is no server group {wish.name!r} to adopt",
                remedy="have the operator create it, or leave placement.adopt out to make one of our own",
            )
        if len({group.zone for group in found}) < len(found):
            raise NameTaken(
                f"server group {wish.name!r} is ambiguous",
                why=f"{len(found)} have that name",
                remedy="rename all but one of them",
            )
        if wish.policy != found[0].policy:
            raise InvalidCall(
                f"server group {wish.name!r} has policy {found[0].policy}, not {wish.policy}",
                remedy=f"say placement.policy: {found[0].policy}, or adopt another group",
            )
        return ADOPTED_PREFIX + (wish.name if self.settings.single_writer else found[0].id)
