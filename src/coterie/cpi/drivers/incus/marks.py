"""Marks and users' words in Incus: keys `user.*` of a config, properties of an image, the name of a snapshot. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark, read_keep_words, read_name
from coterie.cpi.kit.marking import DIRECTOR, INTENT, mark_tags, metadata_tags, read_mark_name, read_mark_tags

USER = "user."
POLICY = f"{USER}coterie-policy"
GROUP = f"{USER}coterie-group"
PLACEMENT = "placement.group"  # of LXD: the placement group that an instance, or all that has a profile, is in
HOSTS = f"{USER}coterie-hosts"  # of a host-affinity group: members' names, or @ and a cluster group
RECORD = f"{USER}coterie-record-"
ATTACHED = f"{USER}coterie-attached"  # on a volume that some VM had, so that it may hold data
MEMBER = f"{USER}coterie-member"  # on a volume: where this driver made it; what others copied elsewhere repeats it
RESERVATION = f"{USER}coterie-reservation"  # on a VM of a group: the note of its reservation
COPY = f"{USER}coterie-copy"  # on a volume that was begun as a copy of one with its name on another member
SETTINGS = f"{USER}user-data"  # what the agent reads
ADDRESS = f"{USER}coterie-address-"  # and a static address of the VM: the network that it is in
UNREAD: Mapping[str, Any] = {"config": {}, "devices": {}, "profiles": []}  # of an instance whose member is silent
_LONGEST = 1024


def is_unread(row: Mapping[str, Any]) -> bool:
    """Whether Incus knows no more of this instance than its name and its member, which is silent."""
    return not row.get("config") and row.get("status") == "Error"


def vm_mark(row: Mapping[str, Any], director_uuid: str) -> Mark | None:
    """In its config, where the name says the same: a copy has another name. Of an unread one, by the name alone."""
    name = str(row["name"])
    if is_unread(row):
        return read_mark_name(name, director_uuid) if read_name(name) else None
    mark = mark_of(row)
    return mark if mark and mark.name() == name else None


def mark_config(mark: Mark) -> dict[str, str]:
    return {f"{USER}{key}": value for key, value in mark_tags(mark).items()}


def user_config(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {f"{USER}{key}": value for key, value in metadata_tags(metadata, longest_value=_LONGEST).items()}


def tags_of(row: Mapping[str, Any]) -> dict[str, str]:
    """All that people may write on it."""
    config = row.get("config") or {}
    tags = {key.removeprefix(USER): str(one) for key, one in config.items() if key.startswith(USER)}
    tags.pop(SETTINGS.removeprefix(USER), None)
    return {**tags, **read_keep_words(str(row.get("description") or "").split())}


def mark_of(row: Mapping[str, Any]) -> Mark | None:
    return read_mark_tags(tags_of(row))


def of_director(director_uuid: str) -> dict[str, str]:
    return {f"config.{USER}{DIRECTOR}": director_uuid}


def of_mark(mark: Mark) -> dict[str, str]:
    return {f"config.{USER}{INTENT}": mark.intent}


def address_key(ip: str) -> str:
    return ADDRESS + ip.replace(":", "-")


def of_address(ip: str, network: str) -> dict[str, str]:
    return {f"config.{address_key(ip)}": network}


def of_group(profile: str) -> dict[str, str]:
    """Of a VM that uses this profile: a profile's config is part of its VMs' expanded one."""
    return {f"expanded_config.{GROUP}": profile}


def fits(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether keys of its config are as a filter wants them."""
    return all((row.get("config") or {}).get(key.removeprefix("config.")) == value for key, value in wanted.items())


def moment(text: object) -> float | None:
    """Incus writes the year 1 for what it does not know."""
    try:
        found = datetime.fromisoformat(str(text)[:19] + "+00:00").timestamp()
    except ValueError:
        return None
    return found if found > 0 else None


def describe(kind: Kind, cid: str, row: Mapping[str, Any], **facts: Any) -> CloudObject:
    created_at = moment(row.get("created_at"))
    return CloudObject(kind, cid, str(row.get("name", "")), created_at, mark=mark_of(row), tags=tags_of(row), **facts)


def snapshot_mark(name: str, director_uuid: str) -> Mark | None:
    """A snapshot has its volume's config, marks included: so its own mark is in its name."""
    return read_mark_name(name, director_uuid)
