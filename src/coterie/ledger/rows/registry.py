"""Agent settings that the registry hands out, one document per instance."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_or_update, now
from coterie.ledger.tables import registry_settings


def get(tx: Tx, instance: str) -> str | None:
    query = sa.select(registry_settings.c.settings).where(registry_settings.c.instance == instance)
    return tx.execute(query).scalar()


def put(tx: Tx, instance: str, settings: str) -> None:
    insert_or_update(tx, registry_settings, {"instance": instance}, {"settings": settings, "updated_at": now()})


def delete(tx: Tx, instance: str) -> bool:
    return tx.execute(registry_settings.delete().where(registry_settings.c.instance == instance)).rowcount == 1
