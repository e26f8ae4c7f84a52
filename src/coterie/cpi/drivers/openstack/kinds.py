"""Where objects of each kind are listed, by what the cloud itself finds a mark, and how rows are read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from coterie.cpi.contract import Kind, Mark
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.marking import (
    DIRECTOR,
    description,
    director_tag,
    mark_of_description,
    mark_of_metadata,
    mark_of_name,
    mark_of_tags,
    metadata,
    tags,
)

Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """`by_mark` and `by_director`: what the cloud filters by; empty where it cannot."""

    service: str
    path: str
    key: str
    one: str
    by_mark: Callable[[Mark], Params]
    by_director: Callable[[str], Params]
    mark: Callable[[Row, str], Mark | None]


def _tagged(row: Row, _: str) -> Mark | None:
    return mark_of_tags(row.get("tags") or ())


def _described(row: Row, _: str) -> Mark | None:
    return mark_of_description(row.get("description"))


def _named(row: Row, director_uuid: str) -> Mark | None:
    ours = row.get("description") == director_tag(director_uuid)
    return mark_of_name(str(row.get("name")), director_uuid) if ours else None


def _with_metadata(service: str, path: str, key: str, one: str) -> Listing:
    return Listing(
        service,
        path,
        key,
        one,
        by_mark=lambda mark: {"metadata": str(metadata(mark))},
        by_director=lambda uuid: {"metadata": str({DIRECTOR: uuid})},
        mark=lambda row, _: mark_of_metadata(row.get("metadata") or {}),
    )


def _with_name_and_description(path: str, key: str, one: str) -> Listing:
    """Neutron sets tags in a call of its own, so the intent is in the name, and the Director in the description."""
    return Listing(
        "network",
        path,
        key,
        one,
        by_mark=lambda mark: {"name": mark.name(), "description": director_tag(mark.director)},
        by_director=lambda uuid: {"description": director_tag(uuid)},
        mark=_named,
    )


def _with_description(path: str, key: str, one: str) -> Listing:
    return Listing(
        "network",
        path,
        key,
        one,
        by_mark=lambda mark: {"description": description(mark)},
        by_director=lambda _: {},
        mark=_described,
    )


def _with_name(path: str, key: str, one: str) -> Listing:
    return Listing(
        "compute",
        path,
        key,
        one,
        by_mark=lambda _: {},
        by_director=lambda _: {},
        mark=lambda row, uuid: mark_of_name(str(row["name"]), uuid),
    )


LISTINGS: dict[Kind, Listing] = {
    "vm": Listing(
        "compute",
        "/servers/detail",
        "servers",
        "server",
        by_mark=lambda mark: {"tags": ",".join(tags(mark))},
        by_director=lambda uuid: {"tags": director_tag(uuid)},
        mark=_tagged,
    ),
    "disk": _with_metadata("block-storage", "/volumes/detail", "volumes", "volume"),
    "snapshot": _with_metadata("block-storage", "/snapshots/detail", "snapshots", "snapshot"),
    "image": Listing(
        "image",
        "/images",
        "images",
        "image",
        by_mark=lambda mark: {"tag": tags(mark)},
        by_director=lambda uuid: {"tag": director_tag(uuid)},
        mark=_tagged,
    ),
    "port": _with_name_and_description("/ports", "ports", "port"),
    "network": _with_name_and_description("/networks", "networks", "network"),
    "ip": _with_description("/floatingips", "floatingips", "floatingip"),
    "security_group": _with_description("/security-groups", "security_groups", "security_group"),
    "server_group": _with_name("/os-server-groups", "server_groups", "server_group"),
    "keypair": _with_name("/os-keypairs", "keypairs", "keypair"),
}
FILTERED: frozenset[str] = frozenset(kind for kind, listing in LISTINGS.items() if listing.by_director("x"))
_GONE = ("DELETED", "SOFT_DELETED", "deleted", "deleting", "pending_delete")
_STATES = {"ACTIVE": "running", "SHUTOFF": "stopped", "ERROR": "error", "BUILD": "building", "REBOOT": "running"}


def is_gone(row: Row) -> bool:
    """What is on its way out is no object any more."""
    return row.get("status") in _GONE or row.get("OS-EXT-STS:task_state") == "deleting"


def created_at(row: Row) -> float | None:
    text = row.get("created_at") or row.get("created")
    if not text:
        return None
    moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def state_of(kind: Kind, row: Row) -> str | None:
    return _STATES.get(str(row.get("status"))) if kind == "vm" else row.get("status")


def host_of(row: Row) -> str | None:
    """Administrators see its name; a project sees a word of its own for each host, the same for all its VMs."""
    return row.get("OS-EXT-SRV-ATTR:host") or row.get("hostId") or None
