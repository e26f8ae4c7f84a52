"""Where a group of ours is written down: on the group itself, or, where the cloud cannot hold an empty one, on a label.

Foreign groups are looked at here too, by name; they have no holder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import ADOPTED_PREFIX, GroupMissing, OutcomeUnknown
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud, every
from coterie.cpi.drivers.sandbox.marking import of_group
from coterie.cpi.drivers.sandbox.refusals import GROUP_REMEDY
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.labels import create_label, delete_label, list_labels
from coterie.sandbox.pages import Filter
from coterie.sandbox.records import Record
from coterie.sandbox.server_groups import (
    ServerGroup,
    create_server_group,
    delete_server_group,
    get_server_group,
    list_server_groups,
)

_LOOK_AGAIN_S = 0.02


class Holders(SandboxCloud):
    """Finding, making and removing the object that a group's tags are on."""

    @property
    def holder_kind(self) -> str:
        return "label" if self.settings.single_writer else "server_group"

    def holder(self, cid: str) -> Record | None:
        """The oldest object with this CID; a copy that somebody tagged alike later does not count."""
        listing = list_labels if self.settings.single_writer else list_server_groups
        page = listing(self.account, of_group(cid), None, 1)
        return page.items[0] if page.items else None

    def require_holder(self, cid: str) -> Record:
        found = self.holder(cid)
        if found is None:
            raise group_missing(cid)
        return found

    def make_holder(self, cid: str, tags: Mapping[str, str], materials: Mapping[str, Any], token: str) -> Record:
        """Made or found again; visible to everybody when this returns, so that no later search can miss it."""
        if self.settings.single_writer:
            create_label(self.account, name=cid, tags=tags, client_token=token)
        else:
            create_server_group(self.account, name=cid, tags=tags, client_token=token, **materials)
        return self._seen(cid)

    def remove_holder(self, holder: Record) -> None:
        """Removed as it was read: a group that somebody joined meanwhile is refused by its revision."""
        delete = delete_label if self.settings.single_writer else delete_server_group
        delete(self.account, holder.id, revision=holder.revision)

    def zone_groups(self, cid: str) -> list[ServerGroup]:
        """The groups behind a CID: one, or one for each zone that has members."""
        if cid.startswith(ADOPTED_PREFIX):
            return self._adopted(cid.removeprefix(ADOPTED_PREFIX))
        return list(every(self.account, list_server_groups, of_group(cid)))

    def foreign_named(self, name: str) -> list[ServerGroup]:
        """Groups of this very name that are not this Director's."""
        found = every(self.account, list_server_groups, Filter(name=name))
        return [group for group in found if not self.ours(group.tags)]

    def _adopted(self, handle: str) -> list[ServerGroup]:
        """On single-writer clouds an operator's group has one name and one object for each zone."""
        if self.settings.single_writer:
            return self.foreign_named(handle)
        try:
            return [get_server_group(self.account, handle)]
        except NoSuch:
            return []

    def _seen(self, cid: str) -> Record:
        datacenter = self.account.datacenter
        deadline = datacenter.clock() + self.settings.settle_s
        found = self.holder(cid)
        while found is None:
            if datacenter.clock() >= deadline:
                raise OutcomeUnknown(
                    f"server group {cid} was made but does not show",
                    why=f"the cloud did not list it within {self.settings.settle_s} s",
                    remedy="look for it again later",
                )
            datacenter.sleep(_LOOK_AGAIN_S)
            found = self.holder(cid)
        return found


def group_missing(cid: str) -> GroupMissing:
    return GroupMissing(f"server group {cid} is missing", why="it was deleted behind our back", remedy=GROUP_REMEDY)
