"""Configured clouds and the cloud config they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import cloud_configs, clouds


@dataclass(frozen=True, slots=True)
class CloudRow:
    name: str
    driver: str
    properties: dict[str, Any]
    conductor_group: str


@dataclass(frozen=True, slots=True)
class ConfigRow:
    id: int
    body: str


def get(tx: Tx, name: str) -> CloudRow | None:
    row = tx.execute(sa.select(clouds).where(clouds.c.name == name)).first()
    return CloudRow(**row._asdict()) if row else None


def all_clouds(tx: Tx) -> dict[str, CloudRow]:
    rows = tx.execute(sa.select(clouds).order_by(clouds.c.name))
    return {row.name: CloudRow(**row._asdict()) for row in rows}


def config(tx: Tx) -> ConfigRow | None:
    """The cloud config in force."""
    query = sa.select(cloud_configs.c.id, cloud_configs.c.body).order_by(cloud_configs.c.id.desc()).limit(1)
    row = tx.execute(query).first()
    return ConfigRow(row.id, row.body) if row else None


def set_config(tx: Tx, body: str, configured: Iterable[CloudRow]) -> int:
    """Store a new cloud config and its clouds; the id of the one in force. The same text again changes nothing."""
    present = config(tx)
    if present is not None and present.body == body:
        return present.id
    digest = hashlib.sha256(body.encode()).hexdigest()
    made = cloud_configs.insert().values(body=body, hash=digest, created_at=now()).returning(cloud_configs.c.id)
    tx.execute(clouds.delete())
    rows = [
        {
            "name": cloud.name,
            "driver": cloud.driver,
            "properties": cloud.properties,
            "conductor_group": cloud.conductor_group,
        }
        for cloud in configured
    ]
    if rows:
        tx.execute(clouds.insert(), rows)
    config_id: int = tx.execute(made).scalar_one()
    # An old text may hold credentials in the open that are sealed by now: none is kept.
    tx.execute(cloud_configs.delete().where(cloud_configs.c.id < config_id))
    return config_id
