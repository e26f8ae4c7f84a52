"""What a server group is asked to be, and how that is written down in tags beside it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import GroupMetadata, InvalidCall, Mark, SecurityGroup
from coterie.cpi.drivers.sandbox.marking import GROUP, mark_tags
from coterie.cpi.kit.checks import require_group_wish

POLICY = "coterie-policy"
GUARDS = "coterie-security-groups"
LEAVING = "coterie-security-groups-leaving"
AZS = "coterie-azs"
NAME = "coterie-name"
HOSTS = "coterie-hosts"
HOST_GROUP = "coterie-host-group"
OPTIONS = ("name", "adopt", "hosts", "host_group")


@dataclass(frozen=True, slots=True)
class GroupWish:
    """`name`: the user's word for the group. `hosts`, `host_group`: where host-affinity keeps its members."""

    policy: str | None
    azs: tuple[str, ...]
    security_groups: tuple[SecurityGroup, ...]
    name: str | None
    adopt: bool
    hosts: tuple[str, ...] | None
    host_group: str | None


def read_wish(metadata: GroupMetadata, policies: frozenset[str]) -> GroupWish:
    """The wish, if this cloud can fulfil it."""
    require_group_wish(metadata, policies, OPTIONS)
    hosts = metadata.options.get("hosts")
    if hosts is not None and not isinstance(hosts, (list, tuple)):
        raise InvalidCall(f"options.hosts is {hosts!r}", remedy="list names of hosts")
    return GroupWish(
        policy=metadata.policy,
        azs=metadata.azs,
        security_groups=metadata.security_groups,
        name=metadata.options.get("name"),
        adopt=bool(metadata.options.get("adopt")),
        hosts=None if hosts is None else tuple(str(host) for host in hosts),
        host_group=metadata.options.get("host_group"),
    )


def write_wish(wish: GroupWish, guards: tuple[str, ...], mark: Mark) -> dict[str, str]:
    """All tags of a new group: whose it is, which it is, and what was asked of it."""
    return {**mark_tags(mark), GROUP: mark.group_cid, **fixed_part(wish), **changing_part(wish, guards)}


def fixed_part(wish: GroupWish) -> dict[str, str]:
    """What a group keeps for life."""
    found = {POLICY: wish.policy or ""}
    if wish.hosts is not None:
        found[HOSTS] = json.dumps(wish.hosts)
    if wish.host_group is not None:
        found[HOST_GROUP] = wish.host_group
    return found


def changing_part(wish: GroupWish, guards: tuple[str, ...], leaving: Iterable[str] = ()) -> dict[str, str]:
    """`leaving`: security groups that members may still have from before; remembered until none of them has."""
    found = {GUARDS: json.dumps(guards), LEAVING: json.dumps(sorted(leaving)), AZS: json.dumps(wish.azs)}
    if wish.name:
        found[NAME] = wish.name
    return found


def fixed_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The fixed part as it was written down."""
    return {key: tags[key] for key in (POLICY, HOSTS, HOST_GROUP) if key in tags}


def asked_policy(tags: Mapping[str, str]) -> str | None:
    return tags.get(POLICY) or None


def guards_in(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the security groups that members get."""
    return tuple(json.loads(tags.get(GUARDS, "[]")))


def guards_before(tags: Mapping[str, str]) -> set[str]:
    """Ids of the security groups that members may have now, those among them that an unfinished update takes away."""
    return {*guards_in(tags), *json.loads(tags.get(LEAVING, "[]"))}


def materials(tags: Mapping[str, str]) -> dict[str, Any]:
    """What the datacenter must be told to make a group of what was written down."""
    return {
        "policy": asked_policy(tags),
        "hosts": json.loads(tags[HOSTS]) if HOSTS in tags else None,
        "host_group": tags.get(HOST_GROUP),
    }
