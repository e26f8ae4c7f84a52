"""Leases of work: which process works on something now. One that is not renewed ends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.ledger.statements import run

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx


def take(tx: Tx, key: str, holder: str, lease_s: float) -> bool:
    """Become the holder, unless a living one is there; also false for a holder's own second try."""
    text = (
        "INSERT INTO leases (key, holder, expires) VALUES (:key, :holder, {now} + :lease_s)"
        " ON CONFLICT (key) DO UPDATE SET holder = :holder, expires = {now} + :lease_s"
        " WHERE leases.expires < {now} RETURNING key"
    )
    return run(tx, text, key=key, holder=holder, lease_s=lease_s).fetchone() is not None


def renew(tx: Tx, key: str, holder: str, lease_s: float) -> None:
    text = "UPDATE leases SET expires = {now} + :lease_s WHERE key = :key AND holder = :holder"
    run(tx, text, key=key, holder=holder, lease_s=lease_s)


def release(tx: Tx, key: str, holder: str) -> None:
    run(tx, "DELETE FROM leases WHERE key = :key AND holder = :holder", key=key, holder=holder)


def holds(tx: Tx, key: str, holder: str) -> bool:
    """Whether no other holder took it over meanwhile."""
    text = "SELECT key FROM leases WHERE key = :key AND holder = :holder {for_update}"
    return run(tx, text, key=key, holder=holder).fetchone() is not None


def list_held(tx: Tx) -> frozenset[str]:
    """Keys of all work that is under way now."""
    return frozenset(key for (key,) in run(tx, "SELECT key FROM leases WHERE expires >= {now}").fetchall())
