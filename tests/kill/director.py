"""The Director process under test: API, ledger and conductor, and the requests of one phase through the front door.

It is born by fork, may be killed at any moment, and then is started again on the same state.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.http import idempotency as once
from coterie.director.process.state_folder import StateFolder
from coterie.engine.runner import Retry
from coterie.errors import CoterieError, StalePlan
from coterie.ids import Ids
from coterie.ledger.rows import identity, stemcells
from coterie.ledger.store import Ledger
from coterie.ledger.tables import conductors, objects, tasks
from coterie.ledger.work.tasks import unfinished
from coterie.requests import looks, start
from coterie.requests.request import PlanRequest
from coterie.requests.resurrection import resurrect
from coterie.settings import load
from tests.director.asgi import Client, Reply
from tests.kill import interception
from tests.kill.order import Order
from tests.kill.points import Tracer, die, stop
from tests.kill.scenario import DEPLOYMENT, STEMCELLS, Phase

T = TypeVar("T")
LEASE_LOST = 7
_PATIENCE_S = 180.0
_BEATS_AFTER_S = 0.1
_REPEATS = 20
_BUSY_S = 0.2  # how long a request of a process that died blocks its repetition
BAD, NOT_FOUND, STALE = 400, 404, 412
_SHOP = f"/v1/deployments/{DEPLOYMENT}"
CONFIG_FILE = "cloud-config"


def run(order: Order) -> dict[str, Any]:
    """Go on with what is unfinished, request what is still wanted, and return what was left to do in the end."""
    tracer = Tracer(order.trace, order.target)
    interception.install(tracer)
    once._BUSY_S = _BUSY_S
    if order.action == "cancel":
        tracer.act = lambda: None  # while it is being set up there is nothing to cancel
    director = Director(order, tracer)
    tracer.act = {"kill": die, "stop": stop, "cancel": director.cancel}[order.action]
    try:
        director.conductor.start()
        return director.carry_out(order.phase)
    finally:
        director.conductor.drain()


class Director:
    def __init__(self, order: Order, tracer: Tracer) -> None:
        self.order = order
        self.tracer = tracer
        self.ledger = Ledger.open(order.url)
        known = identity.ensure_director(self.ledger, "director", Ids())
        with self.ledger.write() as tx:
            for name, version in STEMCELLS:
                stemcells.add(tx, name, version, "image", f"sha-{version}", {}, ["sandbox"])
        start.set_cloud_config(self.ledger, order.cloud_config, CONFIG_FILE)
        self.conductor = conductor(self.ledger, order)
        self._client = front_door(self.ledger, known, order.folder)
        self._answered: set[str] = set()

    def close(self) -> None:
        self.conductor.drain()
        self._client.close()
        self.ledger.close()

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
            with self.ledger.read() as tx:
                state: str = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar_one()
            if state not in ("running", "cancelling"):
                return state
            time.sleep(0.02)  # every commit would wake this, and the process has many
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

    def send(self, method: str, path: str, body: Any = None, what: str = "") -> int | None:
        """The task of a request that is sent until it is answered, under one key: what came of it before a death is not
        known. None: it was answered in this life, or there is nothing left of what it is about."""
        key = f"{self.order.since}-{self.order.phase.name}-{what}-{self.cancelled()}"
        if key in self._answered:
            return None
        reply = self.ask(method, path, body, {"idempotency-key": key})
        self._answered.add(key)
        return None if reply.status == NOT_FOUND else int(reply.json["task_id"])

    def ask(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> Reply:
        """Repeat what is refused for now, as the answer says."""
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            with self.conductor.pause:
                reply = self._client.send(method, path, body, headers)
            if reply.status < BAD or reply.status == NOT_FOUND:
                return reply
            if reply.status == STALE:
                raise StalePlan(reply.json["what"])
            if not reply.json.get("retryable") or time.monotonic() > give_up:
                raise AssertionError(f"{method} {path}: {reply.text}")
            time.sleep(_BUSY_S / 4)

    def cancelled(self) -> int:
        """How many requests of this phase were cancelled; each is sent again, under another key."""
        with self.ledger.read() as tx:
            query = sa.select(tasks.c.id).where(tasks.c.id > self.order.since, tasks.c.state == "cancelled")
            return len(tx.execute(query).all())

    def request(self, phase: Phase) -> PlanRequest:
        return PlanRequest(deployment=DEPLOYMENT, manifest=phase.text, config_file=CONFIG_FILE)

    def left(self, phase: Phase) -> list[str]:
        """What another deployment of the same manifest would do."""
        if phase.ask not in ("deploy", "rest", "restart", "attach"):
            return []
        plan = _patiently(lambda: start.plan(self.ledger, self.request(phase)))
        return [f"{change.action} {change.kind} {change.subject}: {change.reason}" for change in plan.changes]


def front_door(ledger: Ledger, known: identity.Identity, folder: str) -> Client:
    settings = load({"state": folder}, {"HOME": folder})
    return Client(build(AppContext(ledger, known, settings, StateFolder(Path(folder)), local=True)))


class Orderly(Conductor):
    """Takes no step while a request is being answered, so that what happens has one order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pause = threading.Lock()

    def _claim(self) -> float:
        with self.pause:
            return super()._claim()


def conductor(ledger: Ledger, order: Order) -> Orderly:
    """One worker, for the same reason; rests are short, and patience is long."""
    options: dict[str, Any] = {"workers": 1, "ttl_s": 5.0, **order.options}
    return Orderly(
        ledger,
        options.pop("name", "director"),
        state_folder=Path(order.folder),
        retry=Retry(tries=options.pop("tries", 6), first_s=0.01, longest_s=0.05),
        on_lost=lambda: os._exit(LEASE_LOST),
        **options,
    )


def _patiently(ask: Callable[[], T]) -> T:
    """Repeat what is refused for now, as the answer says."""
    for _ in range(_REPEATS):
        try:
            return ask()
        except CoterieError as error:
            if not error.retryable:
                raise
    raise TimeoutError(f"refused {_REPEATS} times")


# -- requests: each answers a task, or None when nothing is left to ask for --


def _deploy(director: Director, phase: Phase) -> int | None:
    body: dict[str, Any] = {"manifest": phase.text}
    if phase.name != "create":
        return director.send("PUT", _SHOP, body)
    # The first time with a plan that is confirmed, is still known when the Director comes back, and is made again when
    # it is out of date.
    note = Path(director.order.folder) / "plan"
    while True:
        if not note.exists():
            plan = director.ask("POST", "/v1/plans", body).json["id"]
            director.tracer.reach("client keeps the plan", "before")
            note.write_text(plan)
            director.tracer.reach("client keeps the plan", "after")
        plan = note.read_text()
        try:
            return director.send("PUT", _SHOP, {**body, "plan": plan}, what=plan)
        except StalePlan:
            note.unlink()


def _delete(director: Director, phase: Phase) -> int | None:
    return director.send("DELETE", f"{_SHOP}?delete_disks=true")


def _look(director: Director, phase: Phase) -> int | None:
    """The one phase in which the process stays long enough for a heartbeat."""
    if not director.accepted():
        return looks.look(director.ledger)
    beaten = sa.select(conductors.c.name).where(conductors.c.heartbeat > conductors.c.started_at + _BEATS_AFTER_S)
    while True:
        with director.ledger.read() as tx:
            if tx.execute(beaten).first():
                return None
        time.sleep(0.02)


def _revive(director: Director, phase: Phase) -> int | None:
    """As the Director's patrol does, which starts it for deployments with `resurrection: true`."""
    return resurrect(director.ledger, DEPLOYMENT) if director.accepted() else looks.look(director.ledger)


def _dispose(director: Director, phase: Phase) -> int | None:
    """One kept disk, by its name: a deletion that was cancelled on its way is sent again."""
    if director.accepted():
        return None
    unused = sa.select(objects.c.intent).where(objects.c.state.in_(("kept", "deleting")), objects.c.node.is_(None))
    with director.ledger.read() as tx:
        intent = tx.execute(unused.where(objects.c.kind == "disk").order_by(objects.c.intent).limit(1)).scalar()
    return director.send("DELETE", f"/v1/disks/{intent}", what=intent) if intent else None


def _rest(director: Director, phase: Phase) -> int | None:
    """One node is stopped, then started."""
    done = director.accepted()
    return _act(director, ("stop", "start")[done], "store/0") if done < phase.tasks else None


def _restart(director: Director, phase: Phase) -> int | None:
    return None if director.accepted() else _act(director, "restart", "job/0")


def _attach(director: Director, phase: Phase) -> int | None:
    """The disk that an earlier instance group left. One that was given and never attached is by a deploy."""
    if director.accepted():
        return None
    left = sa.select(objects.c.intent).where(objects.c.state == "kept", objects.c.ref == "web/0").limit(1)
    with director.ledger.read() as tx:
        intent = tx.execute(left).scalar()
    if intent is None:
        return director.send("PUT", _SHOP, {"manifest": phase.text})
    return _act(director, "attach", "store/0", disk=intent)


def _act(director: Director, verb: str, node: str, **more: Any) -> int | None:
    return director.send("POST", f"{_SHOP}/actions", {"action": verb, "nodes": [node], **more}, what=verb)


_ASKS: dict[str, Callable[[Director, Phase], int | None]] = {
    "nothing": lambda director, phase: None,
    "deploy": _deploy,
    "delete": _delete,
    "look": _look,
    "revive": _revive,
    "rest": _rest,
    "restart": _restart,
    "attach": _attach,
    "dispose": _dispose,
}
