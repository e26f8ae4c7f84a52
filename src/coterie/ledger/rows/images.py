"""Images of stemcells in the database, in chunks, each known by the SHA-256 of its whole content."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_or_update, now
from coterie.ledger.tables import stemcell_chunks, stemcells

CHUNK = 512 * 1024  # bytes; also over a slow line it arrives long before the deadline of a query
_KEEP_S = 86400.0  # an upload under way has chunks, and no stemcell yet


def put_chunk(tx: Tx, sha256: str, n: int, data: bytes) -> None:
    """Also in the place of one that is damaged."""
    insert_or_update(tx, stemcell_chunks, {"sha256": sha256, "n": n}, {"data": data, "stored_at": now()})


def read_chunk(tx: Tx, sha256: str, n: int) -> bytes | None:
    mine = sa.and_(stemcell_chunks.c.sha256 == sha256, stemcell_chunks.c.n == n)
    found = tx.execute(sa.select(stemcell_chunks.c.data).where(mine)).scalar()
    return None if found is None else bytes(found)


def record_whole(tx: Tx, sha256: str, size: int) -> bool:
    """From now on conductors fetch it; False if chunks are missing, since they were deleted meanwhile."""
    _lock(tx, sha256)
    stored = tx.execute(sa.select(sa.func.count()).where(stemcell_chunks.c.sha256 == sha256)).scalar()
    if stored != chunks_of(size):
        return False
    tx.execute(stemcells.update().where(stemcells.c.sha256 == sha256).values(image_size=size))
    return True


def forget_unused(tx: Tx, sha256: str) -> None:
    """Delete the chunks of an image that no stemcell has any more."""
    _lock(tx, sha256)
    listed = sa.exists().where(stemcells.c.sha256 == sha256)
    tx.execute(stemcell_chunks.delete().where(stemcell_chunks.c.sha256 == sha256, ~listed))


def forget_abandoned(tx: Tx) -> int:
    """Delete the chunks of uploads that were cut off."""
    listed = sa.exists().where(stemcells.c.sha256 == stemcell_chunks.c.sha256)
    old = sa.and_(stemcell_chunks.c.stored_at < now() - _KEEP_S, ~listed)
    return tx.execute(stemcell_chunks.delete().where(old)).rowcount


def chunks_of(size: int) -> int:
    return -(-size // CHUNK)


def _lock(tx: Tx, sha256: str) -> None:
    """Until commit: one stemcell may be added while another with the same image is deleted. SQLite has one writer."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(sha256, 0))))
