"""The stemcell catalogue: images that the Director can hand to clouds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import stemcells


@dataclass(frozen=True, slots=True)
class StemcellRow:
    name: str
    version: str
    image: str | None
    sha256: str | None
    cloud_properties: dict[str, Any]
    formats: list[str]
    os: str | None = None
    image_size: int | None = None  # bytes of its image in the database; None: it is not there

    @property
    def ref(self) -> str:
        return f"{self.name}/{self.version}"


_ROW = tuple(stemcells.c[name] for name in StemcellRow.__slots__)


def add(
    tx: Tx,
    name: str,
    version: str,
    image: str | None,
    sha256: str | None,
    cloud_properties: dict[str, Any],
    formats: list[str],
    os: str | None = None,
) -> None:
    present = get(tx, name, version)
    if present is not None:
        refuse_other_content(present, sha256, cloud_properties)
        _learn_os(tx, present, os)
        return
    row = {"image": image, "sha256": sha256, "cloud_properties": cloud_properties, "formats": formats, "os": os}
    tx.execute(stemcells.insert().values(name=name, version=version, created_at=now(), **row))


def refuse_other_content(present: StemcellRow, sha256: str | None, cloud_properties: dict[str, Any]) -> None:
    if present.sha256 == sha256 and present.cloud_properties == cloud_properties:
        return
    raise Conflict(
        f"stemcell {present.ref} is there already, with other content",
        remedy=f"give it another version, or delete the old one: coterie stemcells delete {present.ref}",
    )


def _learn_os(tx: Tx, present: StemcellRow, os: str | None) -> None:
    """One that was taken in before its operating system was read gets it by being uploaded again."""
    if os is None or os == present.os:
        return
    if present.os is not None:
        raise Conflict(
            f"stemcell {present.ref} is there already, with another operating system",
            why=f"it is {present.os}, not {os}",
            remedy=f"give it another version, or delete the old one: coterie stemcells delete {present.ref}",
        )
    mine = sa.and_(stemcells.c.name == present.name, stemcells.c.version == present.version)
    tx.execute(stemcells.update().where(mine).values(os=os))


def get(tx: Tx, name: str, version: str) -> StemcellRow | None:
    row = tx.execute(sa.select(*_ROW).where(stemcells.c.name == name, stemcells.c.version == version)).first()
    return StemcellRow(*row) if row else None


def catalogue(tx: Tx) -> list[StemcellRow]:
    return [StemcellRow(*row) for row in tx.execute(sa.select(*_ROW).order_by(stemcells.c.created_at))]


def delete(tx: Tx, name: str, version: str) -> bool:
    gone = stemcells.delete().where(stemcells.c.name == name, stemcells.c.version == version)
    return tx.execute(gone).rowcount == 1
