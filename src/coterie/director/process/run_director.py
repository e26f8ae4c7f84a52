"""Runs a Director: ledger, conductor, background threads and API in one process, until the HTTP server ends."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from coterie import __version__
from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor, params_of
from coterie.conductor.startup import collect_garbage_seldom, connect, key_file
from coterie.cpi.contract import EVERY_SOURCE
from coterie.director.access.bootstrap import ensure_first_token, read_issuer
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.http_server import HttpServer, Tls
from coterie.director.process.state_folder import StateFolder
from coterie.director.services.periodic_look import PeriodicLook
from coterie.director.services.scheduled_cleanup import ScheduledCleanup
from coterie.engine.image_upkeep import ImageUpkeep
from coterie.engine.images import Images
from coterie.flows.look import Look
from coterie.ids import Ids
from coterie.ledger.rows import director_keys, roles
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.views import tasks
from coterie.redact import hide_credentials
from coterie.seal.signature import Signer
from coterie.settings import Settings
from coterie.telemetry import trace

log = logging.getLogger(__name__)
_DRAIN_S = 10.0
_PATIENT_LEASE_S = 10.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the foreground and the local Director set differently."""

    state_folder: StateFolder
    settings: Settings
    database: str
    listen: Callable[[], socket.socket]  # called last: a client that connects is answered
    token: str | None = None
    guarded: bool = False  # callers must authenticate
    tls: Tls | None = None
    local: bool = False
    idle_s: float | None = None
    parent: bool = False  # end when standard input is closed


def run_director(options: RunOptions) -> None:
    """Returns when the Director has ended in good order."""
    collect_garbage_seldom()
    ledger = connect(options.database)
    ledger.pin(options.settings["pin_release_version"])
    try:
        trace.start(options.settings["otlp_endpoint"], "coterie-director", socket.gethostname())
        context = _context(options, ledger)
        _log_start(options, context)
        _sign(options, ledger)
        _warn_of_old_roles(ledger)
        if options.guarded:
            has_other = options.token is not None or context.oidc is not None
            ensure_first_token(ledger, options.state_folder.token, has_other=has_other)
        server = HttpServer(context, options.idle_s, options.parent, options.tls)
        with _run_background_threads(options, ledger, server) as resumed:
            context.resumed = _read_resumed(ledger, resumed)
            server.run(build(context), options.listen())
    finally:
        trace.stop()
        ledger.close()
    log.info("ended")


def _context(options: RunOptions, ledger: Ledger) -> AppContext:
    identity = ensure_director(ledger, options.settings["name"], Ids(), options.settings["uuid"])
    return AppContext(
        ledger,
        identity,
        options.settings,
        options.state_folder,
        token=options.token,
        oidc=read_issuer(options.settings) if options.guarded else None,
        guarded=options.guarded,
        local=options.local,
        database=options.database,
    )


def _log_start(options: RunOptions, context: AppContext) -> None:
    settings = options.settings
    log.info(
        "Director %s (%s), release %s, starts: database %s, state folder %s, listens on %s, conductor %s, look "
        "interval %g s, pinned to %s",
        context.identity.name,
        context.identity.uuid,
        __version__,
        hide_credentials(options.database),
        options.state_folder.path,
        settings["listen"] if options.guarded else options.state_folder.socket,
        "inside" if settings["conductor"] else "elsewhere",
        settings["look_interval"],
        settings["pin_release_version"] or "nothing",
    )


def _sign(options: RunOptions, ledger: Ledger) -> None:
    """Steps and questions of this process carry our signature from now on."""
    signer = Signer.load(options.state_folder.signing_key)
    with ledger.write() as tx:
        pinned = options.settings["pin_release_version"] is not None
        director_keys.publish(tx, signer, params_of, pinned=pinned)
    ledger.sign_with(signer)


def _warn_of_old_roles(ledger: Ledger) -> None:
    with ledger.read() as tx:
        old = roles.list_old(tx)
    for name in old:
        log.warning(
            "the database role %s has the rights of an earlier release: it sees and changes the rows of every site; "
            "once its conductors are of this release, grant again: coterie conductors role %s --group NAME | psql",
            name,
            name,
        )


@contextmanager
def _run_background_threads(options: RunOptions, ledger: Ledger, server: HttpServer) -> Iterator[list[int]]:
    """Yields the tasks that our own conductor resumes; none where other conductors run the work."""
    conductor = _conductor(options, ledger, server) if options.settings["conductor"] else None
    settings = options.settings
    how = Look(settings["meltdown_percent"], settings["meltdown_nodes"])
    periodic_look = PeriodicLook(ledger, settings["look_interval"], settings["keep_history_days"], how)
    scheduled_cleanup = ScheduledCleanup(ledger, options.settings)
    upkeep = ImageUpkeep(ledger, Images(ledger, options.state_folder.stemcells), publishes=True)
    periodic_look.seal_once()  # at once: a look may be far off, or never come
    gc.freeze()  # what is here now stays: to look through it costs as much as several nodes
    if conductor is not None:
        conductor.start()
    periodic_look.start()
    scheduled_cleanup.start()
    upkeep.start()
    try:
        yield conductor.resumed if conductor is not None else []
    finally:
        upkeep.stop()
        scheduled_cleanup.stop()
        periodic_look.stop()
        if conductor is not None:
            conductor.drain(_DRAIN_S)


def _conductor(options: RunOptions, ledger: Ledger, server: HttpServer) -> Conductor:
    settings = options.settings
    # On SQLite the fleet is this process: no other conductor could take over, but bulk writes may delay its heartbeat.
    lease_s = max(settings["lease"], _PATIENT_LEASE_S) if ledger.dialect == "sqlite" else settings["lease"]
    return Conductor(
        ledger,
        # The same name after a restart, so that it resumes its own work at once; another name on every machine.
        f"{settings['name']}@{socket.gethostname()}",
        state_folder=options.state_folder.path,
        role=ConductorRole(ring=settings["ring"], pinned=settings["pin_release_version"]),
        keys=key_file(ledger, settings, None),
        workers=settings["workers"],
        per_cloud=settings["workers_per_cloud"],
        ttl_s=lease_s,
        call_timeout_s=settings["call_timeout"],
        exec_paths=settings["exec_paths"],
        credential_sources=_credential_sources(settings),
        on_lost=server.end,
    )


def _credential_sources(settings: Settings) -> Sequence[str]:
    """At its socket, a Director's callers are the user whose credentials these are."""
    if settings["credential_sources"] is None:
        return () if settings["listen"] else (EVERY_SOURCE,)
    return tuple(settings["credential_sources"])


def _read_resumed(ledger: Ledger, ids: list[int]) -> list[dict[str, object]]:
    with ledger.read() as tx:
        unfinished = tasks.unfinished(tx)
    # No user started a periodic look: that it continues is not worth a message.
    found = [task for task in unfinished if task["id"] in ids and task["kind"] != "look"]
    for task in found:
        log.info("resumed task %s (%s %s)", task["id"], task["kind"], task["deployment"] or "")
    return [{key: task[key] for key in ("id", "kind", "deployment")} for task in found]
