"""The catalogue of stemcells as the API shows it, with the clouds that hold an image of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.store import Tx
from coterie.ledger.tables import objects, stemcells
from coterie.ledger.views.page import Page, Row, Slice, fetch, when


def page(tx: Tx, part: Slice) -> Page:
    found = fetch(tx, sa.select(*stemcells.c), [stemcells.c.name, stemcells.c.version], part)
    return Page(_view(tx, found.items), found.next)


def one(tx: Tx, name: str, version: str) -> Row:
    mine = sa.and_(stemcells.c.name == name, stemcells.c.version == version)
    row = tx.execute(sa.select(*stemcells.c).where(mine)).mappings().first()
    if row is None:
        raise NotFound(f"no stemcell {name}/{version}", remedy="list them with `coterie stemcells`")
    return _view(tx, [dict(row)])[0]


def _view(tx: Tx, rows: list[Row]) -> list[Row]:
    images = _images(tx, [f"{row['name']}/{row['version']}" for row in rows])
    return [
        {
            "name": row["name"],
            "version": row["version"],
            "os": row["os"],
            "light": row["image"] is None,
            "sha256": row["sha256"],
            "cloud_properties": row["cloud_properties"] or {},
            "formats": row["formats"] or [],
            "clouds": images[f"{row['name']}/{row['version']}"],
            "created_at": when(row["created_at"]),
        }
        for row in rows
    ]


def _images(tx: Tx, refs: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    held = sa.select(objects.c.ref, objects.c.cloud).where(
        objects.c.kind == "image", objects.c.state != "gone", objects.c.ref.in_(refs)
    )
    for ref, cloud in tx.execute(held.distinct().order_by(objects.c.cloud)):
        found[ref].append(cloud)
    return found
