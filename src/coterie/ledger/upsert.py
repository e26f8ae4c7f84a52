"""Insert unless the key is there: one statement on either database, so that two writers cannot both insert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from coterie.ledger.store import Tx


def insert_or_update(tx: Tx, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    new = _insert(tx, table, {**key, **values})
    tx.execute(new.on_conflict_do_update(index_elements=list(key), set_=dict(values)))


def insert_or_leave(tx: Tx, table: sa.Table, key: Mapping[str, Any]) -> None:
    tx.execute(_insert(tx, table, key).on_conflict_do_nothing())


def _insert(tx: Tx, table: sa.Table, values: Mapping[str, Any]) -> Any:
    insert = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    return insert(table).values(**values)
