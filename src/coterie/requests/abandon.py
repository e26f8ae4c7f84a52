"""Gives a deployment up without calling any cloud: what it left there is found, proven ours and removed by cleanup."""

from __future__ import annotations

from coterie.errors import NotFound
from coterie.ledger.rows import deployments, events
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time


def abandon(ledger: Ledger, name: str) -> None:
    """For a deployment that cannot be deleted in good order: its conductor or its cloud will not come back."""
    with ledger.write() as tx:
        if deployments.get(tx, name) is None:
            raise NotFound(f"there is no deployment {name}", remedy="see `coterie deployments`")
        deployments.abandon(tx, name)
        told = "given up; what it has in clouds is an orphan now: coterie cleanup"
        events.append(tx, [Event(None, "deployment.abandoned", name, told)], time(tx))
