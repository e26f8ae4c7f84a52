"""Runs a Director: ledger, conductor and API in one process, until a signal, the idle clock or its parent ends it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.conductor.startup import connect, key_file
from coterie.director.access.configured import first_token, issuer_of
from coterie.director.app import build
from coterie.director.context import Office
from coterie.director.process.home import Home
from coterie.director.process.lifetime import Life
from coterie.director.process.tls import Tls
from coterie.director.services.periodic_look import Patrol
from coterie.director.services.scheduled_cleanup import Housekeeper
from coterie.ids import Ids
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.views import tasks
from coterie.settings import Settings
from coterie.telemetry import trace

log = logging.getLogger(__name__)
_DRAIN_S = 10.0
_PATIENT_LEASE_S = 10.0


@dataclass(frozen=True, slots=True)
class Service:
    """How to run."""

    home: Home
    settings: Settings
    database: str
    listen: Callable[[], socket.socket]  # called when everything else is ready: a client that connects is served
    token: str | None = None
    guarded: bool = False  # callers have to say who they are
    tls: Tls | None = None
    local: bool = False
    idle_s: float | None = None
    parent: bool = False  # end when standard input is closed


def serve(service: Service) -> None:
    """Returns when the Director has ended in good order."""
    ledger = connect(service.database)
    try:
        trace.start(service.settings["otlp_endpoint"], "coterie-director", socket.gethostname())
        office = _office(service, ledger)
        if service.guarded:
            first_token(ledger, service.home.token, told=service.token is not None or office.oidc is not None)
        life = Life(office, service.idle_s, service.parent, service.tls)
        with _conducting(service, ledger, life) as resumed:
            office.resumed = _resumed(ledger, resumed)
            life.run(build(office), service.listen())
    finally:
        trace.stop()
        ledger.close()
    log.info("ended")


def _office(service: Service, ledger: Ledger) -> Office:
    identity = ensure_director(ledger, service.settings["name"], Ids())
    return Office(
        ledger,
        identity,
        service.settings,
        service.home,
        token=service.token,
        oidc=issuer_of(service.settings) if service.guarded else None,
        guarded=service.guarded,
        local=service.local,
    )


@contextmanager
def _conducting(service: Service, ledger: Ledger, life: Life) -> Iterator[list[int]]:
    """The tasks that our own conductor goes on with; none where conductors elsewhere do the work."""
    conductor = _conductor(service, ledger, life) if service.settings["conductor"] else None
    patrol = Patrol(ledger, service.settings["look_interval"], service.settings["keep_history_days"])
    housekeeper = Housekeeper(ledger, service.settings)
    if conductor is not None:
        conductor.start()
    patrol.start()
    housekeeper.start()
    try:
        yield conductor.resumed if conductor is not None else []
    finally:
        housekeeper.stop()
        patrol.stop()
        if conductor is not None:
            conductor.drain(_DRAIN_S)


def _conductor(service: Service, ledger: Ledger, life: Life) -> Conductor:
    settings = service.settings
    # On SQLite the fleet is this process: nobody waits for its work, but bulk writes may delay its heartbeat.
    lease_s = max(settings["lease"], _PATIENT_LEASE_S) if ledger.dialect == "sqlite" else settings["lease"]
    return Conductor(
        ledger,
        # The same after a restart, so that it takes its own work over at once; different on every machine.
        f"{settings['name']}@{socket.gethostname()}",
        state_folder=service.home.folder,
        role=ConductorRole(ring=settings["ring"], pinned=settings["pin_release_version"]),
        keys=key_file(ledger, settings, None),
        workers=settings["workers"],
        per_cloud=settings["workers_per_cloud"],
        ttl_s=lease_s,
        call_timeout_s=settings["call_timeout"],
        on_lost=life.end,
    )


def _resumed(ledger: Ledger, ids: list[int]) -> list[dict[str, object]]:
    with ledger.read() as tx:
        unfinished = tasks.unfinished(tx)
    # A look is nobody's wish: that it goes on is no news.
    found = [task for task in unfinished if task["id"] in ids and task["kind"] != "look"]
    for task in found:
        log.info("goes on with task %s (%s %s)", task["id"], task["kind"], task["deployment"] or "")
    return [{key: task[key] for key in ("id", "kind", "deployment")} for task in found]
