"""The record of a server group: tags on the group itself, or on a label where the cloud cannot hold an empty group.

Groups of operators have no record; they are looked up here by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupMetadata,
    GroupMissing,
    InvalidCall,
    Mark,
    OutcomeUnknown,
    SecurityGroup,
)
from coterie.cpi.drivers.sandbox.account import CloudAccount, of_group
from coterie.cpi.drivers.sandbox.errors import GROUP_REMEDY
from coterie.cpi.drivers.sandbox.properties import Settings
from coterie.cpi.kit.checks import require_group_spec
from coterie.cpi.kit.marking import GROUP, mark_tags
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
from coterie.sandbox.tags import set_tags
from coterie.slotted import dataclass

POLICY = "coterie-policy"
SECURITY_GROUPS = "coterie-security-groups"
LEAVING = "coterie-security-groups-leaving"
AZS = "coterie-azs"
NAME = "coterie-name"
HOSTS = "coterie-hosts"
HOST_GROUP = "coterie-host-group"
OPTIONS = ("name", "adopt", "hosts", "host_group")
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """`name`: the user's word for the group. `hosts`, `host_group`: where host-affinity keeps its members."""

    policy: str | None
    azs: tuple[str, ...]
    security_groups: tuple[SecurityGroup, ...]
    name: str | None
    hosts: tuple[str, ...] | None
    host_group: str | None

    def fixed_tags(self) -> dict[str, str]:
        """What a group keeps for life."""
        tags = {POLICY: self.policy or ""}
        if self.hosts is not None:
            tags[HOSTS] = json.dumps(self.hosts)
        if self.host_group is not None:
            tags[HOST_GROUP] = self.host_group
        return tags

    def changing_tags(self, security_groups: tuple[str, ...], leaving: Iterable[str] = ()) -> dict[str, str]:
        """`leaving`: security groups that members may still have from before; recorded until no member has them."""
        tags = {
            SECURITY_GROUPS: json.dumps(security_groups),
            LEAVING: json.dumps(sorted(leaving)),
            AZS: json.dumps(self.azs),
        }
        if self.name:
            tags[NAME] = self.name
        return tags


def read_group_spec(metadata: GroupMetadata, policies: frozenset[str]) -> GroupSpec:
    """The spec, if this cloud can fulfil it."""
    require_group_spec(metadata, policies, OPTIONS)
    hosts = metadata.options.get("hosts")
    if hosts is not None and not isinstance(hosts, (list, tuple)):
        raise InvalidCall(f"options.hosts is {hosts!r}", remedy="list names of hosts")
    return GroupSpec(
        policy=metadata.policy,
        azs=metadata.azs,
        security_groups=metadata.security_groups,
        name=metadata.options.get("name"),
        hosts=None if hosts is None else tuple(str(host) for host in hosts),
        host_group=metadata.options.get("host_group"),
    )


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """What was written down about a group, on the object that `holder` is."""

    holder: Record

    @property
    def cid(self) -> str:
        return self.holder.tags.get(GROUP, self.holder.id)

    @property
    def policy(self) -> str | None:
        return self.holder.tags.get(POLICY) or None

    @property
    def fixed_tags(self) -> dict[str, str]:
        return {key: self.holder.tags[key] for key in (POLICY, HOSTS, HOST_GROUP) if key in self.holder.tags}

    @property
    def security_groups(self) -> tuple[str, ...]:
        """Ids of the security groups that members get."""
        return tuple(json.loads(self.holder.tags.get(SECURITY_GROUPS, "[]")))

    @property
    def security_groups_before(self) -> set[str]:
        """Ids of those that members may have now, also those that an unfinished update takes away."""
        return {*self.security_groups, *json.loads(self.holder.tags.get(LEAVING, "[]"))}


def group_arguments(tags: Mapping[str, str]) -> dict[str, Any]:
    """What the datacenter needs to create a group from its tags."""
    return {
        "policy": tags.get(POLICY) or None,
        "hosts": json.loads(tags[HOSTS]) if HOSTS in tags else None,
        "host_group": tags.get(HOST_GROUP),
    }


class GroupRecords:
    """Finds, writes and removes records, and finds the groups behind a CID."""

    def __init__(self, cloud: CloudAccount, settings: Settings) -> None:
        self._cloud = cloud
        self._settings = settings
        self._kind = "label" if settings.single_writer else "server_group"

    def find(self, cid: str) -> GroupRecord | None:
        """The oldest record of this CID; a copy with the same tags does not count."""
        listing = list_labels if self._settings.single_writer else list_server_groups
        page = listing(self._cloud.account, of_group(cid), None, 1)
        return GroupRecord(page.items[0]) if page.items else None

    def require(self, cid: str) -> GroupRecord:
        found = self.find(cid)
        if found is None:
            raise group_missing(cid)
        return found

    def create(self, spec: GroupSpec, security_groups: tuple[str, ...], mark: Mark) -> GroupRecord:
        own = {**mark_tags(mark), GROUP: mark.group_cid}
        tags = {**own, **spec.fixed_tags(), **spec.changing_tags(security_groups)}
        return self.write(mark.group_cid, tags, mark.intent)

    def write(self, cid: str, tags: Mapping[str, str], token: str) -> GroupRecord:
        """Created or found again; visible to all when this returns, so that no later search can miss it."""
        account = self._cloud.account
        if self._settings.single_writer:
            create_label(account, name=cid, tags=tags, client_token=token)
        else:
            create_server_group(account, name=cid, tags=tags, client_token=token, **group_arguments(tags))
        return self._wait_until_visible(cid)

    def update(self, record: GroupRecord, tags: Mapping[str, str]) -> None:
        set_tags(self._cloud.account, record.holder.id, self._kind, tags)

    def remove(self, record: GroupRecord) -> None:
        """Remove it as it was read: a group that a VM joined meanwhile is refused by its revision."""
        delete = delete_label if self._settings.single_writer else delete_server_group
        delete(self._cloud.account, record.holder.id, revision=record.holder.revision)

    def groups_behind(self, cid: str) -> list[ServerGroup]:
        """The groups of a CID: one, or one for each zone that has members."""
        if cid.startswith(ADOPTED_PREFIX):
            return self._adopted(cid.removeprefix(ADOPTED_PREFIX))
        return list(self._cloud.every(list_server_groups, of_group(cid)))

    def foreign_groups(self, name: str) -> list[ServerGroup]:
        """Groups of this very name that are not this Director's."""
        found = self._cloud.every(list_server_groups, Filter(name=name))
        return [group for group in found if not self._cloud.owns(group.tags)]

    def _adopted(self, handle: str) -> list[ServerGroup]:
        """On single-writer clouds an operator's group has one name and one object for each zone."""
        if self._settings.single_writer:
            return self.foreign_groups(handle)
        try:
            return [get_server_group(self._cloud.account, handle)]
        except NoSuch:
            return []

    def _wait_until_visible(self, cid: str) -> GroupRecord:
        datacenter = self._cloud.account.datacenter
        deadline = datacenter.clock() + self._settings.settle_s
        found = self.find(cid)
        while found is None:
            if datacenter.clock() >= deadline:
                raise OutcomeUnknown(
                    f"server group {cid} was made but does not show",
                    why=f"the cloud did not list it within {self._settings.settle_s} s",
                    remedy="look for it again later",
                )
            datacenter.sleep(_LOOK_AGAIN_S)
            found = self.find(cid)
        return found


def group_missing(cid: str) -> GroupMissing:
    return GroupMissing(f"server group {cid} is missing", why="it was deleted behind our back", remedy=GROUP_REMEDY)
