"""Agent settings that the registry hands out, one document per instance."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import registry_settings


def get(tx: Tx, instance: str) -> str | None:
    query = sa.select(registry_settings.c.settings).where(registry_settings.c.instance == instance)
    return tx.execute(query).scalar()


def put(tx: Tx, instance: str, settings: str) -> None:
    if tx.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # same shape, other dialect
    values = {"settings": settings, "updated_at": now()}
    made = insert(registry_settings).values(instance=instance, **values)
    tx.execute(made.on_conflict_do_update(index_elements=["instance"], set_=values))


def delete(tx: Tx, instance: str) -> bool:
    return tx.execute(registry_settings.delete().where(registry_settings.c.instance == instance)).rowcount == 1
