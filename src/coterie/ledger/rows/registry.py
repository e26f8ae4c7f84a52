"""Agent settings that the registry hands out, one document per instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.ledger.statements import run

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx


def get(tx: Tx, instance: str) -> str | None:
    row = run(tx, "SELECT settings FROM registry_settings WHERE instance = :instance", instance=instance).fetchone()
    return row[0] if row else None


def put(tx: Tx, instance: str, settings: str) -> None:
    run(
        tx,
        "INSERT INTO registry_settings (instance, settings, updated_at) VALUES (:instance, :settings, {now})"
        " ON CONFLICT (instance) DO UPDATE SET settings = :settings, updated_at = {now}",
        instance=instance,
        settings=settings,
    )


def delete(tx: Tx, instance: str) -> bool:
    done = run(tx, "DELETE FROM registry_settings WHERE instance = :instance", instance=instance)
    return bool(done.rowcount == 1)
