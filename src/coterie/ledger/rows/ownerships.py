"""Which team a deployment belongs to. The row stays when the deployment goes, for its disks and history stay too."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_or_update
from coterie.ledger.tables import deployments, objects, ownerships, tasks


def team_of(tx: Tx, deployment: str) -> str | None:
    return tx.execute(sa.select(ownerships.c.team).where(ownerships.c.deployment == deployment)).scalar()


def teams_of(tx: Tx, deployments: list[str]) -> dict[str, str]:
    rows = tx.execute(sa.select(ownerships).where(ownerships.c.deployment.in_(deployments)))
    return {row.deployment: row.team for row in rows}


def is_unused(tx: Tx, deployment: str) -> bool:
    """Whether nothing has ever had this name: then its new owner inherits nothing from another one."""
    traces = (
        sa.select(ownerships.c.deployment).where(ownerships.c.deployment == deployment),
        sa.select(deployments.c.name).where(deployments.c.name == deployment),
        sa.select(tasks.c.deployment).where(tasks.c.deployment == deployment).limit(1),
        sa.select(objects.c.deployment).where(objects.c.deployment == deployment).limit(1),
    )
    return all(tx.execute(trace).first() is None for trace in traces)


def assign(tx: Tx, deployment: str, team: str | None) -> None:
    """None: of no team, so that only callers without a limit see it."""
    if team is None:
        tx.execute(ownerships.delete().where(ownerships.c.deployment == deployment))
        return
    insert_or_update(tx, ownerships, {"deployment": deployment}, {"team": team})
