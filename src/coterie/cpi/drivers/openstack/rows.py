"""Objects as OpenStack's services list them: where each kind is, how it bears a mark, and the calls that all kinds
share. Marks are tags of servers and images, metadata of volumes and snapshots, names and descriptions elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from coterie.cpi.contract import KEEP, Json, Kind, Mark, read_keep_words, read_name
from coterie.cpi.drivers.openstack.client import BROKEN, MISSING, Client, Page, Refusal, Row
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.create_once import Created, Hold, create_if_absent
from coterie.cpi.kit.marking import DIRECTOR, GROUP, INTENT, mark_tags, metadata_tags, read_mark_name, read_mark_tags
from coterie.cpi.kit.parts import Parts
from coterie.slotted import dataclass, field

Params = dict[str, Any]
# tags of a server that has floating addresses, volumes of its own, or a key pair that we registered
VIP, VOLUME, KEY = "coterie-vip", "coterie-volume", "coterie-key"
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_VALUE_LIMIT = 255
_SHORT_PAGE = 50
PART_KINDS: tuple[Kind, ...] = ("port", "ip", "security_group")
_GONE = ("DELETED", "SOFT_DELETED", "deleted", "deleting", "pending_delete")


# -- marks --


def director_tag(director_uuid: str) -> str:
    return f"{DIRECTOR}-{director_uuid}"


def tags(mark: Mark) -> list[str]:
    """Short enough for Nova, which takes 60 characters, and no slash and no comma."""
    return [director_tag(mark.director), f"{INTENT}-{mark.intent}"]


def group_tag(cid: str) -> str:
    return f"{GROUP}-{cid}"


def mark_of_tags(found: Iterable[str]) -> Mark | None:
    """One Director and one intent; anything else is no proof."""
    directors, intents = _tag_values(found, DIRECTOR), _tag_values(found, INTENT)
    return read_mark_tags({DIRECTOR: directors[0], INTENT: intents[0]}) if len(directors) == len(intents) == 1 else None


def owner_of(found: Iterable[str], name: str, director_uuid: str) -> str | None:
    """The Director that left a mark on a server: by the tag, which holds the whole uuid, or else by the name."""
    named = read_name(name)
    return next(iter(_tag_values(found, DIRECTOR)), named.owner(director_uuid) if named else None)


def description(mark: Mark) -> str:
    return f"{mark.name()} {mark.director}"


def mark_of_description(text: str | None) -> Mark | None:
    """The whole of it, but for words that people write behind it to keep the object."""
    words = [word for word in (text or "").split() if not word.lower().startswith(KEEP)]
    return read_mark_name(words[0], words[1]) if len(words) == 2 and read_name(words[0]) else None


def user_metadata(given: Any) -> dict[str, str]:
    return metadata_tags(given, longest_key=_VALUE_LIMIT, longest_value=_VALUE_LIMIT)


# where the mark is; a row that lacks it says nothing about its owner
_MARKED_BY: Mapping[Kind, str] = {
    "vm": "tags",
    "image": "tags",
    "disk": "metadata",
    "snapshot": "metadata",
    "port": "description",
    "network": "description",
    "ip": "description",
    "security_group": "description",
}


def written_on(kind: Kind, row: Row) -> dict[str, str] | None:
    """What people may write on an object: metadata; an image's properties, which are keys of its row; tags; words of
    the description. Nothing can be written on server groups and key pairs."""
    if _MARKED_BY.get(kind, "name") not in row:
        return None
    properties = {key: str(value) for key, value in row.items() if kind == "image" and key.lower().startswith(KEEP)}
    words = [*(row.get("tags") or ()), *str(row.get("description") or "").split()]
    return {**(row.get("metadata") or {}), **properties, **read_keep_words(words)}


def _tag_values(found: Iterable[str], key: str) -> list[str]:
    return [one.removeprefix(f"{key}-") for one in found if one.startswith(f"{key}-")]


# -- where each kind is --


def _no_filter(_: object) -> Params:
    return {}


@dataclass(frozen=True, slots=True)
class Listing:
    """`by_mark` and `by_director`: what the cloud filters by; empty where it cannot. `mark`: read from a row, for a
    Director. `detail`: the path of the list ends so."""

    service: str
    path: str
    mark: Callable[[Row, str], Mark | None]
    by_mark: Callable[[Mark], Params] = _no_filter
    by_director: Callable[[str], Params] = _no_filter
    detail: str = ""

    @property
    def key(self) -> str:
        """The name of a list in an answer; that of a single object is `one`."""
        return self.path.removeprefix("/").removeprefix("os-").replace("-", "_")

    @property
    def one(self) -> str:
        return self.key.removesuffix("s")


def _mark_in_tags(row: Row, _: str) -> Mark | None:
    return mark_of_tags(row.get("tags") or ())


def _mark_in_name(row: Row, director_uuid: str) -> Mark | None:
    return read_mark_name(str(row["name"]), director_uuid)


def _with_metadata(path: str) -> Listing:
    return Listing(
        "block-storage",
        path,
        mark=lambda row, _: read_mark_tags(row.get("metadata") or {}),
        by_mark=lambda mark: {"metadata": str(mark_tags(mark))},
        by_director=lambda uuid: {"metadata": str({DIRECTOR: uuid})},
        detail="/detail",
    )


def _with_name_and_description(path: str) -> Listing:
    """Neutron sets tags in a call of its own, so the intent is in the name, and the Director in the description."""
    return Listing(
        "network",
        path,
        mark=lambda row, uuid: _mark_in_name(row, uuid) if row.get("description") == director_tag(uuid) else None,
        by_mark=lambda mark: {"name": mark.name(), "description": director_tag(mark.director)},
        by_director=lambda uuid: {"description": director_tag(uuid)},
    )


def _with_description(path: str) -> Listing:
    return Listing(
        "network",
        path,
        mark=lambda row, _: mark_of_description(row.get("description")),
        by_mark=lambda mark: {"description": description(mark)},
    )


LISTINGS: dict[Kind, Listing] = {
    "vm": Listing(
        "compute",
        "/servers",
        mark=_mark_in_tags,
        by_mark=lambda mark: {"tags": ",".join(tags(mark))},
        by_director=lambda uuid: {"tags": director_tag(uuid)},
        detail="/detail",
    ),
    "disk": _with_metadata("/volumes"),
    "snapshot": _with_metadata("/snapshots"),
    "image": Listing(
        "image",
        "/images",
        mark=_mark_in_tags,
        by_mark=lambda mark: {"tag": tags(mark)},
        by_director=lambda uuid: {"tag": director_tag(uuid)},
    ),
    "port": _with_name_and_description("/ports"),
    "network": _with_name_and_description("/networks"),
    "ip": _with_description("/floatingips"),
    "security_group": _with_description("/security-groups"),
    "server_group": Listing("compute", "/os-server-groups", mark=_mark_in_name),
    "keypair": Listing("compute", "/os-keypairs", mark=_mark_in_name),
}


# -- the calls --


@dataclass(frozen=True, slots=True)
class Rows:
    """Reads, lists, creates and deletes objects of every kind. `parts`: records of ports, floating addresses and
    security groups, which bear the mark of a VM or a server group; and of Nova's own ids of server groups."""

    client: Client
    parts: Parts = field(default_factory=Parts)

    def read(self, kind: Kind, wanted: str) -> Row | None:
        """The object with this id; a text that is no uuid is never an id of the cloud's."""
        if not is_uuid(wanted):
            return None
        listing = LISTINGS[kind]
        answer = self.client.look(f"look at {kind} {wanted}", listing.service, f"{listing.path}/{wanted}")
        found: Row | None = (answer or {}).get(listing.one, answer)
        return found

    def require_vm(self, wanted: str) -> Row:
        row = self.read("vm", wanted)
        if row is None or is_gone(row):
            raise vm_missing(wanted)
        return row

    def list_all(self, kind: Kind, **params: Any) -> Iterator[Row]:
        marker: str | None = None
        while True:
            rows, marker = self.page(kind, marker, **params)
            yield from rows
            if marker is None:
                return

    def page(self, kind: Kind, marker: str | None, **params: Any) -> Page:
        """One page, and the marker of the next. Server groups are counted instead, and key pairs wrapped."""
        listing = LISTINGS[kind]
        what, path = f"list objects of kind {kind}", listing.path + listing.detail
        if kind != "server_group":
            rows, following = self.client.page(what, listing.service, path, listing.key, marker, **params)
            return [{"id": one.get("name"), **one} for row in rows for one in [row.get(listing.one, row)]], following
        offset, limit = int(marker or 0), self.client.settings.page_size
        rows = self.client.get(what, listing.service, path, limit=limit, offset=offset)[listing.key]
        # Nova silently cuts pages to a limit of its own, so only a short page is the last
        return rows, str(offset + len(rows)) if len(rows) >= min(limit, _SHORT_PAGE) else None

    def list_marked(self, kind: Kind, mark: Mark) -> list[Row]:
        """All objects with this mark, the oldest first; more than one only after a race."""
        listing = LISTINGS[kind]
        rows = [row for row in self.list_all(kind, **listing.by_mark(mark)) if listing.mark(row, mark.director) == mark]
        return sorted(self.without_copies(kind, rows), key=age)

    def without_copies(self, kind: Kind, rows: list[Row]) -> list[Row]:
        """Names of server groups are not unique in Nova: those that others gave the name of one of ours are no
        objects of ours."""
        if kind != "server_group":
            return rows
        marks = [read_mark_name(str(row["name"]), self.client.director_uuid) for row in rows]
        marked = zip(rows, marks, strict=True)
        return [row for row, mark in marked if not mark or not self.parts.is_copy(mark, kind, str(row["id"]))]

    def list_parts(self, kind: Kind, mark: Mark) -> list[Row]:
        """Those of `list_marked` that were created under the mark: the others bear a copy of it."""
        rows = self.list_marked(kind, mark)
        return self.parts.ours(mark, kind, rows, lambda row: str(row["id"]), lambda row: part_name(kind, row))

    def is_part(self, kind: Kind, row: Row, mark: Mark) -> bool:
        return self.parts.is_ours(mark, kind, str(row["id"]), part_name(kind, row))

    def list_live(self, kind: Kind, mark: Mark) -> list[Row]:
        return [row for row in self.list_marked(kind, mark) if not is_gone(row)]

    def find_live(self, kind: Kind, mark: Mark) -> Row | None:
        return next(iter(self.list_live(kind, mark)), None)

    def create(self, kind: Kind, mark: Mark, body: Json) -> Row:
        if kind not in (*PART_KINDS, "server_group"):
            return self._create(kind, mark, body)
        return self.parts.create(
            mark, kind, part_name(kind, body), lambda: self._create(kind, mark, body), lambda row: str(row["id"])
        )

    def _create(self, kind: Kind, mark: Mark, body: Json) -> Row:
        """A service that broke while it worked may have created it all the same; it has ended, so one look tells.
        Under one mark may be other parts of the kind: security groups of other names."""
        listing = LISTINGS[kind]
        try:
            answer = self.client.send("POST", f"create a {kind}", listing.service, listing.path, {listing.one: body})
        except Refusal as error:
            live = self.list_live(kind, mark) if error.status == BROKEN else []
            found = next((row for row in live if part_name(kind, row) == part_name(kind, body)), None)
            if found is None:
                raise
            return found
        created: Row = answer.get(listing.one, answer)
        return created

    def create_change(self, kind: Kind, mark: Mark, body: Json) -> Json:
        """For the single writer; `apply_create` makes it."""
        return {"kind": kind, "mark": mark.wire(), "body": body}

    def apply_create(self, change: Json, hold: Hold) -> Created:
        kind, mark = change["kind"], Mark.of_wire(change["mark"])
        return create_if_absent(
            lambda: ids(self.list_live(kind, mark)),
            lambda: str(self.create(kind, mark, change["body"])["id"]),
            lambda second: self.delete(kind, second),
            hold,
        )

    def delete(self, kind: Kind, wanted: str, tolerated: tuple[int, ...] = (MISSING,)) -> None:
        listing = LISTINGS[kind]
        self.client.delete(f"delete {kind} {wanted}", listing.service, f"{listing.path}/{wanted}", tolerated)


def part_name(kind: Kind, row: Row) -> str:
    """What tells the parts of one kind under one mark apart: the name of a security group, the address of a floating
    address."""
    named = {"security_group": "name", "ip": "floating_ip_address"}
    return str(row[named[kind]]) if kind in named else kind


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None


def ids(rows: Iterable[Row]) -> list[str]:
    return [str(row["id"]) for row in rows]


def age(row: Row) -> tuple[str, str]:
    """For sorting: the oldest first."""
    return str(row.get("created_at") or row.get("created")), str(row["id"])


def is_gone(row: Row) -> bool:
    """Whether it is on its way out: then it is no object any more."""
    return row.get("status") in _GONE or row.get("OS-EXT-STS:task_state") == "deleting"


def created_at(row: Row) -> float | None:
    text = row.get("created_at") or row.get("created")
    if not text:
        return None
    moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def host_of(row: Row) -> str | None:
    """Administrators see its name; a project sees an opaque id of each host, the same for all its VMs."""
    return row.get("OS-EXT-SRV-ATTR:host") or row.get("hostId") or None
