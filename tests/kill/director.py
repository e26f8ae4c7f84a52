"""The Director process under test: ledger and conductor, and the requests of one phase through the front door.

It is born by fork, may be killed at any moment, and then is started again on the same state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.errors import CoterieError, NotFound
from coterie.ids import Ids
from coterie.ledger import identity, stemcells
from coterie.ledger.store import Ledger
from coterie.ledger.tables import conductors, objects, tasks
from coterie.ledger.tasks import unfinished
from coterie.task import start
from coterie.task.request import PlanRequest
from coterie.task.retry import Retry
from tests.kill import interception
from tests.kill.order import Order
from tests.kill.points import Tracer, die, stop
from tests.kill.scenario import DEPLOYMENT, STEMCELLS, Phase

T = TypeVar("T")
LEASE_LOST = 7
_PATIENCE_S = 60.0
_BEATS_AFTER_S = 0.1
_REPEATS = 20


def run(order: Order) -> dict[str, Any]:
    """Go on with what is unfinished, ask for what is still wanted, and tell what was left to do in the end."""
    tracer = Tracer(order.trace, order.target)
    interception.install(tracer)
    director = Director(order)
    tracer.act = {"kill": die, "stop": stop, "cancel": director.cancel}[order.action]
    try:
        director.conductor.start()
        return director.carry_out(order.phase)
    finally:
        director.conductor.drain()


class Director:
    def __init__(self, order: Order) -> None:
        self.order = order
        self.ledger = Ledger.open(order.url)
        identity.ensure_director(self.ledger, "director", Ids())
        with self.ledger.write() as tx:
            for name, version in STEMCELLS:
                stemcells.add(tx, name, version, "image", f"sha-{version}", {}, ["sandbox"])
        self.conductor = conductor(self.ledger, order)

    def carry_out(self, phase: Phase) -> dict[str, Any]:
        resumed = list(self.conductor.resumed)
        for task in resumed:
            self.wait(task)
        while (asked := _patiently(lambda: _ASKS[phase.ask](self, phase))) is not None:
            self.wait(asked)
        return {"resumed": resumed, "left": self.left(phase)}

    def wait(self, task: int) -> str:
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            seen = self.ledger.written.version
            with self.ledger.read() as tx:
                state: str = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar_one()
            if state not in ("running", "cancelling"):
                return state
            self.ledger.written.wait(seen, 0.1)
        raise TimeoutError(f"task {task} did not end")

    def cancel(self) -> None:
        for task in self.unfinished():
            start.cancel(self.ledger, task)

    def unfinished(self) -> list[int]:
        with self.ledger.read() as tx:
            return unfinished(tx)

    def accepted(self) -> int:
        """How many requests of this phase need not be sent again."""
        with self.ledger.read() as tx:
            query = sa.select(tasks.c.id).where(tasks.c.id > self.order.since, tasks.c.state != "cancelled")
            return len(tx.execute(query).all())

    def request(self, phase: Phase) -> PlanRequest:
        return PlanRequest(deployment=DEPLOYMENT, manifest=phase.text, cloud_config=self.order.cloud_config)

    def left(self, phase: Phase) -> list[str]:
        """What another deployment of the same manifest would do."""
        if phase.ask != "deploy":
            return []
        plan = _patiently(lambda: start.plan(self.ledger, self.request(phase)))
        return [f"{change.action} {change.kind} {change.subject}: {change.reason}" for change in plan.changes]


def conductor(ledger: Ledger, order: Order) -> Conductor:
    """One worker, so that what happens has one order; rests are short, and patience is long."""
    options: dict[str, Any] = {"workers": 1, "ttl_s": 5.0, **order.options}
    return Conductor(
        ledger,
        options.pop("name", "director"),
        state_folder=Path(order.folder),
        retry=Retry(tries=options.pop("tries", 6), first_s=0.01, longest_s=0.05),
        on_lost=lambda: os._exit(LEASE_LOST),
        **options,
    )


def _patiently(ask: Callable[[], T]) -> T:
    """As a person does, who is told to try again later and does so."""
    for _ in range(_REPEATS):
        try:
            return ask()
        except CoterieError as error:
            if not error.retryable:
                raise
    raise TimeoutError(f"refused {_REPEATS} times")


# -- requests: each answers a task, or None when nothing is left to ask for --


def _deploy(director: Director, phase: Phase) -> int | None:
    """A request is sent once; one that was accepted is not repeated, whatever became of the Director."""
    if director.accepted():
        return None
    request = director.request(phase)
    # The first time as a person does it, with a plan to confirm; later at once, as a pipeline does.
    confirmed = start.plan(director.ledger, request).id if phase.name == "create" else None
    return start.deploy(director.ledger, request, confirmed, "test")


def _delete(director: Director, phase: Phase) -> int | None:
    request = PlanRequest(deployment=DEPLOYMENT, delete=True, delete_disks=True)
    try:
        return start.deploy(director.ledger, request, None, "test")
    except NotFound:
        return None


def _look(director: Director, phase: Phase) -> int | None:
    """The one phase in which the process stays long enough for a heartbeat."""
    if not director.accepted():
        return start.look(director.ledger)
    beaten = sa.select(conductors.c.name).where(conductors.c.heartbeat > conductors.c.started_at + _BEATS_AFTER_S)
    while True:
        with director.ledger.read() as tx:
            if tx.execute(beaten).first():
                return None
        time.sleep(0.02)


def _dispose(director: Director, phase: Phase) -> int | None:
    """One kept disk, as a person names it: a deletion that was cancelled on its way is asked for again."""
    if director.accepted():
        return None
    nobodys = sa.select(objects.c.intent).where(objects.c.state.in_(("kept", "deleting")), objects.c.node.is_(None))
    with director.ledger.read() as tx:
        intent = tx.execute(nobodys.where(objects.c.kind == "disk").order_by(objects.c.intent).limit(1)).scalar()
    return start.delete_kept_disk(director.ledger, intent, "test") if intent else None


_ASKS: dict[str, Callable[[Director, Phase], int | None]] = {
    "nothing": lambda director, phase: None,
    "deploy": _deploy,
    "delete": _delete,
    "look": _look,
    "dispose": _dispose,
}
