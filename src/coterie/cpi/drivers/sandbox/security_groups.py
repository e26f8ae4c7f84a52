"""Security groups of our server groups: created with their rules, changed where these differ, deleted with their last
user. One that is not ours is used only where it is adopted.

Each server group leaves a tag on the security groups that the driver created. A deletion that races with a new user is
refused, because the new user's tag changes the revision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from coterie.cpi.contract import CpiError, Mark, NameTaken, SecurityGroup, compare_rules, read_rules
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.kit.marking import mark_tags, read_mark_tags
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import require_usable
from coterie.sandbox import security_groups as datacenter
from coterie.sandbox.errors import InUse, NoSuch, RevisionDiffers
from coterie.sandbox.pages import Filter
from coterie.sandbox.tags import set_tags

USER = "coterie-user:"
_TRIES = 5


class SecurityGroups:
    def __init__(self, cloud: CloudAccount, parts: Parts) -> None:
        self._cloud = cloud
        self._parts = parts

    def ensure(
        self, requests: Iterable[SecurityGroup], cid: str, mark: Mark, held: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Ids of security groups of these names, each with its rules, and used by this server group from now on.
        `held`: ids of those that the server group has."""
        groups = list(requests)
        for group in groups:
            read_rules(group.rules or ())
        self.require_usable(groups, held)  # before anything is created
        return tuple(dict.fromkeys(self._use_or_create(group, cid, mark, held) for group in groups))

    def require_usable(self, requests: Iterable[SecurityGroup], held: Collection[str] = ()) -> None:
        """Refuse what `ensure` would refuse because of the security groups that are there."""
        for request in requests:
            self._find_usable(request, held)

    def require_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Ids of security groups that must exist already."""
        return tuple(self._require(name) for name in dict.fromkeys(names))

    def release(self, cid: str, *, keep: Iterable[str] = ()) -> None:
        """This server group uses no security group any more but those to keep; those without users are deleted."""
        only, kept = Filter(tag=(f"{USER}{cid}", "yes")), set(keep)
        for group in list(self._cloud.every(datacenter.list_security_groups, only)):
            if group.id not in kept:
                self._release_one(group.id, cid)

    def _find(self, name: str) -> datacenter.SecurityGroup | None:
        found = list(self._cloud.every(datacenter.list_security_groups, Filter(name=name)))
        if len(found) > 1:
            raise NameTaken(
                f"security group {name!r} is ambiguous",
                why=f"{len(found)} have that name: {', '.join(group.id for group in found[:5])}",
                remedy="rename or delete all but one of them, or use another name",
            )
        return found[0] if found else None

    def _require(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            raise CpiError(f"there is no security group {name!r}", remedy="create it, or name one that exists")
        return found.id

    def _find_usable(self, request: SecurityGroup, held: Collection[str]) -> datacenter.SecurityGroup | None:
        found = self._find(request.name)
        is_ours = found is not None and (self._cloud.owns(found.tags) or found.id in held)
        require_usable(request, is_there=found is not None, is_ours=is_ours)
        return found

    def _use_or_create(self, request: SecurityGroup, cid: str, mark: Mark, held: Collection[str]) -> str:
        for _ in range(_TRIES):
            found = self._find_usable(request, held) or self._create(request, cid, mark)
            if not self._cloud.owns(found.tags):
                return found.id
            if read_mark_tags(found.tags) == mark:
                self._parts.record_unfinished(mark, "security_group", found.name, found.id)
            try:
                if f"{USER}{cid}" not in found.tags:
                    set_tags(self._cloud.account, found.id, "security_group", {f"{USER}{cid}": "yes"})
                self._change_rules(found.id, request)
                return found.id
            except (NoSuch, RevisionDiffers):
                continue  # deleted with its last user, or changed, since we looked: look again
        raise CpiError(
            f"security group {request.name!r} is changed or deleted again and again",
            remedy="find out what does that, then repeat",
            retryable=True,
        )

    def _change_rules(self, group: str, request: SecurityGroup) -> None:
        if request.adopt or request.rules is None:
            return
        found = datacenter.get_security_group(self._cloud.account, group)
        present = list(dict.fromkeys(read_rules(found.rules)))
        changes = compare_rules(present, read_rules(request.rules))
        if changes:
            rules = [*(rule for rule in present if rule not in changes.go), *changes.come]
            datacenter.set_security_group_rules(
                self._cloud.account, group, [rule.wire() for rule in rules], revision=found.revision
            )

    def _create(self, wanted: SecurityGroup, cid: str, mark: Mark) -> datacenter.SecurityGroup:
        def create() -> datacenter.SecurityGroup:
            return datacenter.create_security_group(
                self._cloud.account,
                name=wanted.name,
                rules=wanted.rules or (),
                tags={**mark_tags(mark), f"{USER}{cid}": "yes"},
                # one token for all groups of a Director: of two creates at once, the second answers the first's
                client_token=f"{mark.director}/{wanted.name}",
            )

        return self._parts.create(mark, "security_group", wanted.name, create, lambda made: made.id)

    def is_ours(self, found: datacenter.SecurityGroup) -> bool:
        """Whether this Director created it, and it does not only bear a copy of its tags."""
        mark = read_mark_tags(found.tags) if self._cloud.owns(found.tags) else None
        return mark is not None and self._parts.is_ours(mark, "security_group", found.id, found.name)

    def _release_one(self, group: str, cid: str) -> None:
        """The last user's tag stays on until the group is deleted: after a crash the repeat finds it by that tag."""
        for _ in range(_TRIES):
            try:
                found = datacenter.get_security_group(self._cloud.account, group)
                if self.is_ours(found) and not set(security_group_users(found)) - {cid}:
                    datacenter.delete_security_group(self._cloud.account, group, revision=found.revision)
                    return
                if f"{USER}{cid}" not in found.tags:
                    return
                set_tags(self._cloud.account, group, "security_group", {f"{USER}{cid}": None})
            except NoSuch:
                return
            except (InUse, RevisionDiffers):
                continue  # its users changed since we looked: look again


def security_group_users(group: datacenter.SecurityGroup) -> tuple[str, ...]:
    """VMs and CIDs of server groups that use it."""
    groups = (key.removeprefix(USER) for key in group.tags if key.startswith(USER))
    return (*group.vms, *groups)
