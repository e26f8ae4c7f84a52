"""Images that VMs boot from. Only what is known of an image is kept, not its bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coterie.sandbox import pages, quotas, records
from coterie.sandbox.api import api
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import USERS_SHOWN, Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Image(Record):
    size_bytes: int
    digest: str
    properties: Mapping[str, Any]
    vms: tuple[str, ...]


SHAPE = Shape(
    kind="image",
    prefix="img",
    table="images",
    columns=(
        "k.size_bytes, k.digest, k.properties",
        "(SELECT json_group_array(u.id) FROM (SELECT x.id FROM vms v JOIN objects x ON x.seq = v.object "
        f"WHERE v.image = o.id LIMIT {USERS_SHOWN}) u)",
    ),
    value=Image,
    own=lambda tx, own: (own[0], own[1], json.loads(own[2]), tuple(json.loads(own[3]))),
)


@api("create_image")
def create_image(
    tx: Tx,
    *,
    name: str,
    size_bytes: int = 0,
    digest: str = "",
    properties: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> Image:
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    quotas.charge(tx, {"images": 1})
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    tx.db.execute("INSERT INTO images VALUES (?,?,?,?)", (seq, size_bytes, digest, json.dumps(dict(properties or {}))))
    return records.fetch(tx, SHAPE, made)


@api("get_image", writes=False)
def get_image(tx: Tx, wanted: str) -> Image:
    return records.fetch(tx, SHAPE, wanted)


@api("list_images", writes=False)
def list_images(tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT) -> Page[Image]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("delete_image")
def delete_image(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    """VMs that were booted from it have their own copy and do not mind."""
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    quotas.charge(tx, {"images": -1})
    records.remove(tx, SHAPE, found.seq)
