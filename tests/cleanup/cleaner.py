"""A process that cleans up until nothing is left to do; it may be killed at any moment and be started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.conductor.process import Conductor
from coterie.engine.runner import Retry
from coterie.ledger.store import Ledger
from coterie.ledger.tables import tasks
from coterie.ledger.work.tasks import unfinished
from tests.cleanup.leaks import wait
from tests.cleanup.yard import AT_ONCE
from tests.kill import interception
from tests.kill.order import Order
from tests.kill.points import Tracer

_ROUNDS = 5


def run(order: Order) -> dict[str, Any]:
    """Go on with what is unfinished, as a Director does that was started again; then clean until nothing is proposed.

    The first cleanup only begins the undo window of disks; the next ones have none.
    """
    interception.install(Tracer(order.trace, order.target))
    ledger = Ledger.open(order.url)
    conductor = Conductor(
        ledger, "cleaner", state_folder=Path(order.folder), workers=1, ttl_s=5.0, retry=Retry(first_s=0.01)
    )
    conductor.start()
    try:
        for task in conductor.resumed:
            wait(ledger, task)
        for _ in range(_ROUNDS):
            if not _clean(ledger):
                return {"left": []}
        return {"left": [f"something was still proposed after {_ROUNDS} cleanups"]}
    finally:
        conductor.drain()


def _clean(ledger: Ledger) -> int:
    first = not _any_sweep(ledger)
    options = Options.of_wire({**AT_ONCE, "undo_s": 3600 if first else 0, "disks": "keep" if first else "snapshot"})
    number, task = start.survey(ledger, options, "test")
    wait(ledger, task)
    plan = start.read_plan(ledger, number)
    if not plan.items:
        return 0
    wait(ledger, start.apply(ledger, number, plan.id, "test"))
    with ledger.read() as tx:
        begun = unfinished(tx)
    for task in begun:  # nodes that are given their VM back
        wait(ledger, task)
    return len(plan.items)


def _any_sweep(ledger: Ledger) -> bool:
    with ledger.read() as tx:
        return tx.execute(sa.select(tasks.c.id).where(tasks.c.kind == "sweep").limit(1)).first() is not None
