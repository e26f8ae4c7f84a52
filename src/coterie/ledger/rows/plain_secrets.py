"""Finds and replaces specs that hold secrets of machines in plain, as releases before the sealing stored them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import nodes, steps

_ENDED = steps.c.state.in_(("done", "failed", "skipped", "cancelled"))


def _holds_secrets(spec: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether a stored spec has an `env` that is not empty, or `user_data`."""
    return sa.or_(spec["env"].as_string().not_in(("{}", "null")), spec["user_data"].as_string().is_not(None))


_NODE = _holds_secrets(nodes.c.spec)
_STEP = _holds_secrets(steps.c.data["wish"])


def are_left(tx: Tx) -> bool:
    """Whether anything is still in plain, also steps that have not ended."""
    found = (sa.select(nodes.c.uuid).where(_NODE), sa.select(steps.c.id).where(_STEP))
    return any(tx.execute(query.limit(1)).first() for query in found)


def nodes_in_plain(tx: Tx) -> list[str]:
    return list(tx.execute(sa.select(nodes.c.uuid).where(_NODE)).scalars())


def replace_spec(tx: Tx, uuid: str, seen: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Unless the node was made anew meanwhile."""
    row = tx.execute(sa.select(nodes.c.spec).where(nodes.c.uuid == uuid).with_for_update()).scalar()
    if row == seen:
        tx.execute(nodes.update().where(nodes.c.uuid == uuid).values(spec=spec))


def steps_in_plain(tx: Tx, after: int, most: int) -> list[Any]:
    """Ended steps with an id above `after`, with their data. What is still to be done is left as it was ordered."""
    query = sa.select(steps.c.id, steps.c.data).where(steps.c.id > after, _ENDED, _STEP)
    return list(tx.execute(query.order_by(steps.c.id).limit(most).with_for_update(skip_locked=True)))


def replace_data(tx: Tx, step: int, data: Mapping[str, Any]) -> None:
    tx.execute(steps.update().where(steps.c.id == step, _ENDED).values(data=data))
