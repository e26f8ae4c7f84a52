"""Security groups of our server groups: used where they exist, made where not, gone when the last of us lets go.

Each server group of ours leaves a tag on the security groups that we made, so a deletion that races with a new user
is refused by the revision that the new user's tag changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cpi.contract import CpiError, Mark, NameTaken, SecurityGroup
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud, every
from coterie.cpi.drivers.sandbox.marking import mark_tags
from coterie.sandbox import security_groups as cloud
from coterie.sandbox.errors import InUse, NoSuch, RevisionDiffers
from coterie.sandbox.pages import Filter
from coterie.sandbox.tags import set_tags

USER = "coterie-user:"
_TRIES = 5


class Guards(SandboxCloud):
    def secure(self, wanted: Iterable[SecurityGroup], cid: str, mark: Mark) -> tuple[str, ...]:
        """Ids of security groups of these names, each used by this server group from now on."""
        groups = list(wanted)
        for group in groups:
            self.named(group.name)  # an ambiguous name is refused before anything is made
        return tuple(dict.fromkeys(self._secured(group, cid, mark) for group in groups))

    def named(self, name: str) -> cloud.SecurityGroup | None:
        found = list(every(self.account, cloud.list_security_groups, Filter(name=name)))
        if len(found) > 1:
            raise NameTaken(
                f"security group {name!r} is ambiguous",
                why=f"{len(found)} have that name: {', '.join(group.id for group in found[:5])}",
                remedy="rename or delete all but one of them, or use another name",
            )
        return found[0] if found else None

    def existing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Ids of security groups that must be there already."""
        return tuple(self._required(name) for name in dict.fromkeys(names))

    def let_go(self, cid: str, *, keep: Iterable[str] = ()) -> None:
        """This server group uses no security group any more but those to keep; what nobody uses now goes."""
        only, kept = Filter(tag=(f"{USER}{cid}", "yes")), set(keep)
        for group in list(every(self.account, cloud.list_security_groups, only)):
            if group.id not in kept:
                self._released(group.id, cid)

    def _secured(self, wanted: SecurityGroup, cid: str, mark: Mark) -> str:
        for _ in range(_TRIES):
            found = self.named(wanted.name) or self._made(wanted, cid, mark)
            if not self.ours(found.tags) or f"{USER}{cid}" in found.tags:
                return found.id
            try:
                set_tags(self.account, found.id, "security_group", {f"{USER}{cid}": "yes"})
                return found.id
            except NoSuch:
                continue  # its last user just let it go: make it again
        raise CpiError(
            f"security group {wanted.name!r} is deleted again and again",
            remedy="find out who deletes it, then repeat",
            retryable=True,
        )

    def _made(self, wanted: SecurityGroup, cid: str, mark: Mark) -> cloud.SecurityGroup:
        return cloud.create_security_group(
            self.account,
            name=wanted.name,
            rules=wanted.rules,
            tags={**mark_tags(mark), f"{USER}{cid}": "yes"},
            # one token for all groups of a Director: of two that make it at once, the second gets the first's
            client_token=f"{mark.director}/{wanted.name}",
        )

    def _required(self, name: str) -> str:
        found = self.named(name)
        if found is None:
            raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
        return found.id

    def _released(self, group: str, cid: str) -> None:
        """The last user deletes the group with its tag still on it: who dies half-way can find it again by that."""
        for _ in range(_TRIES):
            try:
                found = cloud.get_security_group(self.account, group)
                if self.ours(found.tags) and not set(users(found)) - {cid}:
                    cloud.delete_security_group(self.account, group, revision=found.revision)
                    return
                if f"{USER}{cid}" not in found.tags:
                    return
                set_tags(self.account, group, "security_group", {f"{USER}{cid}": None})
            except NoSuch:
                return
            except (InUse, RevisionDiffers):
                continue  # others come and go at the same time: look again


def users(group: cloud.SecurityGroup) -> tuple[str, ...]:
    """VMs and CIDs of server groups that use it."""
    groups = (key.removeprefix(USER) for key in group.tags if key.startswith(USER))
    return (*group.vms, *groups)
