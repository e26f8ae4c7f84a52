"""Deployments as the API shows them: the manifest, the states of its nodes, and the task that works on it.

`unfinished_task`: the task that failed or was cancelled, until a deploy completes the deployment; else null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.rows import deployments as rows_of_deployments
from coterie.ledger.rows import ownerships
from coterie.ledger.store import Tx
from coterie.ledger.tables import deployments, manifests, nodes, tasks
from coterie.ledger.views.page import Page, Row, Slice, fetch, when
from coterie.ledger.visibility import visible

_COLUMNS = tuple(
    deployments.c[name] for name in ("name", "serial", "config_id", "resurrection", "created_at", "updated_at")
)
_UNFINISHED = ("running", "cancelling")


def page(tx: Tx, part: Slice) -> Page:
    found = fetch(tx, sa.select(*_COLUMNS).where(visible(deployments.c.name)), [deployments.c.name], part)
    return Page(_view(tx, found.items), found.next)


def one(tx: Tx, name: str) -> Row:
    mine = sa.and_(deployments.c.name == name, visible(deployments.c.name))
    row = tx.execute(sa.select(*_COLUMNS).where(mine)).mappings().first()
    if row is None:
        raise _unknown(name)
    return _view(tx, [dict(row)])[0]


def manifest(tx: Tx, name: str) -> str:
    """The text as it was given."""
    mine = sa.and_(deployments.c.name == name, visible(deployments.c.name))
    row = tx.execute(sa.select(deployments.c.manifest).where(mine)).first()
    if row is None:
        raise _unknown(name)
    return str(row.manifest)


def manifest_page(tx: Tx, name: str, part: Slice) -> Page:
    """Those that were accepted, newest first, without their texts."""
    columns = [manifests.c[one] for one in ("id", "requested_by", "created_at")]
    mine = sa.select(*columns).where(manifests.c.deployment == name, visible(manifests.c.deployment))
    found = fetch(tx, mine, [manifests.c.id], part, newest_first=True)
    return Page([{**row, "created_at": when(row["created_at"])} for row in found.items], found.next)


def old_manifest(tx: Tx, name: str, number: int) -> Row:
    columns = [manifests.c[one] for one in ("id", "body", "requested_by", "created_at")]
    mine = sa.and_(manifests.c.deployment == name, manifests.c.id == number, visible(manifests.c.deployment))
    row = tx.execute(sa.select(*columns).where(mine)).mappings().first()
    if row is None:
        raise NotFound(f"no manifest {number} of deployment {name!r}", remedy="see the history of the deployment")
    return {**row, "created_at": when(row["created_at"])}


def _unknown(name: str) -> NotFound:
    return NotFound(f"no deployment {name!r}", remedy="list them with `coterie deployments`")


def _view(tx: Tx, rows: list[Row]) -> list[Row]:
    names = [row["name"] for row in rows]
    states, working, teams = _states(tx, names), _working(tx, names), ownerships.teams_of(tx, names)
    unfinished = rows_of_deployments.unfinished(tx, names)
    return [
        {
            **row,
            "nodes": states[row["name"]],
            "task": working.get(row["name"]),
            "unfinished_task": unfinished.get(row["name"]),
            "team": teams.get(row["name"]),
            "created_at": when(row["created_at"]),
            "updated_at": when(row["updated_at"]),
        }
        for row in rows
    ]


def _states(tx: Tx, names: Sequence[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    by_state = (nodes.c.deployment, nodes.c.state)
    query = sa.select(*by_state, sa.func.count()).where(nodes.c.deployment.in_(names)).group_by(*by_state)
    for name, state, count in tx.execute(query.order_by(nodes.c.state)):
        found[name][state] = count
    return found


def _working(tx: Tx, names: Sequence[str]) -> dict[str, int]:
    query = sa.select(tasks.c.deployment, sa.func.max(tasks.c.id)).where(
        tasks.c.deployment.in_(names), tasks.c.state.in_(_UNFINISHED)
    )
    return {str(name): task for name, task in tx.execute(query.group_by(tasks.c.deployment))}
