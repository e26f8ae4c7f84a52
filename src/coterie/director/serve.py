"""Runs a Director: ledger, conductor and API in one process, until a signal, the idle clock or its parent ends it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import ArgumentError, OperationalError

from coterie.conductor.process import Conductor
from coterie.director.app import build
from coterie.director.home import Home
from coterie.director.housekeeper import Housekeeper
from coterie.director.life import Life
from coterie.director.office import Office
from coterie.director.patrol import Patrol
from coterie.errors import Unreachable
from coterie.ids import Ids
from coterie.ledger.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.views import tasks
from coterie.settings import Settings, veiled

log = logging.getLogger(__name__)
_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Service:
    """How to run."""

    home: Home
    settings: Settings
    database: str
    listen: Callable[[], socket.socket]  # called when everything else is ready: a client that connects is served
    token: str | None = None
    local: bool = False
    idle_s: float | None = None
    parent: bool = False  # end when standard input is closed


def serve(service: Service) -> None:
    """Returns when the Director has ended in good order."""
    ledger = _open(service.database)
    try:
        office = _office(service, ledger)
        life = Life(office, service.idle_s, service.parent)
        with _conducting(service, ledger, life) as conductor:
            office.resumed = _resumed(ledger, conductor.resumed)
            life.run(build(office), service.listen())
    finally:
        ledger.close()
    log.info("ended")


def _open(url: str) -> Ledger:
    try:
        return Ledger.open(url)
    except (OperationalError, ArgumentError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise Unreachable(
            f"cannot open the ledger {veiled(url)}",
            why=veiled(reason),
            remedy="check that the database runs, and its URL: --database or COTERIE_DATABASE",
        ) from error


def _office(service: Service, ledger: Ledger) -> Office:
    identity = ensure_director(ledger, service.settings["name"], Ids())
    return Office(ledger, identity, service.settings, service.home, token=service.token, local=service.local)


@contextmanager
def _conducting(service: Service, ledger: Ledger, life: Life) -> Iterator[Conductor]:
    conductor = Conductor(
        ledger,
        # The same after a restart, so that it takes its own work over at once; different on every machine.
        f"{service.settings['name']}@{socket.gethostname()}",
        state_folder=service.home.folder,
        workers=service.settings["workers"],
        call_timeout_s=service.settings["call_timeout"],
        on_lost=life.end,
    )
    patrol = Patrol(ledger, service.settings["look_interval"])
    housekeeper = Housekeeper(ledger, service.settings)
    conductor.start()
    patrol.start()
    housekeeper.start()
    try:
        yield conductor
    finally:
        housekeeper.stop()
        patrol.stop()
        conductor.drain(_DRAIN_S)


def _resumed(ledger: Ledger, ids: list[int]) -> list[dict[str, object]]:
    with ledger.read() as tx:
        unfinished = tasks.unfinished(tx)
    # A look is nobody's wish: that it goes on is no news.
    found = [task for task in unfinished if task["id"] in ids and task["kind"] != "look"]
    for task in found:
        log.info("goes on with task %s (%s %s)", task["id"], task["kind"], task["deployment"] or "")
    return [{key: task[key] for key in ("id", "kind", "deployment")} for task in found]
