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
    """`conductor_group`: where its work runs that is of no node.

    `other_groups`: those that its azs, instance groups and nodes may have besides.
    """

    name: str
    driver: str
    properties: dict[str, Any]
    conductor_group: str
    other_groups: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that its credentials are sealed to, its own first."""
        return self.conductor_group, *self.other_groups


@dataclass(frozen=True, slots=True)
class ConfigRow:
    id: int
    body: str


def get(tx: Tx, name: str) -> CloudRow | None:
    row = tx.execute(sa.select(clouds).where(clouds.c.name == name)).first()
    return _read(row) if row else None


def all_clouds(tx: Tx) -> dict[str, CloudRow]:
    rows = tx.execute(sa.select(clouds).order_by(clouds.c.name))
    return {row.name: _read(row) for row in rows}


def _read(row: Any) -> CloudRow:
    return CloudRow(row.name, row.driver, row.properties, row.conductor_group, tuple(row.other_groups or ()))


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
            "other_groups": list(cloud.other_groups) or None,
        }
        for cloud in configured
    ]
    if rows:
        tx.execute(clouds.insert(), rows)
    config_id: int = tx.execute(made).scalar_one()
    # An old text may hold credentials in the open that are sealed by now: none is kept.
    tx.execute(cloud_configs.delete().where(cloud_configs.c.id < config_id))
    return config_id
