"""A conductor as a process of its own: connects, works until a signal or a lost lease ends it, drains."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading

from coterie import __version__
from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.conductor.startup import check_clock, check_role, collect_garbage_seldom, connect, key_file
from coterie.cpi.load import driver_names
from coterie.engine.image_upkeep import ImageUpkeep
from coterie.errors import LeaseLost, Unreachable, UsageError
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger
from coterie.redact import hide_credentials
from coterie.settings import Settings
from coterie.telemetry import process, systemd, trace
from coterie.telemetry.meters import Gauge
from coterie.telemetry.page import Page

log = logging.getLogger(__name__)
_DRAIN_S = 30.0
_WATCH_S = 1.0


def serve(settings: Settings, database: str) -> None:
    """Returns after a signal, when the conductor has drained."""
    collect_garbage_seldom()
    role = role_of(settings)
    ledger = connect(database)
    try:
        check_clock(ledger)
        check_role(ledger, role.group)
        _require_director(ledger)
        _work(ledger, settings, role, database)
    finally:
        ledger.close()


def role_of(settings: Settings) -> ConductorRole:
    installed = driver_names()
    wanted: tuple[str, ...] | None = settings["drivers"]
    unknown = sorted(set(wanted or ()) - set(installed))
    if unknown:
        raise UsageError(
            f"there is no driver {unknown[0]!r}", remedy=f"install it, or use one of: {', '.join(sorted(installed))}"
        )
    return ConductorRole(
        settings["conductor_group"], wanted, settings["weight"], settings["ring"], settings["pin_release_version"]
    )


def _work(ledger: Ledger, settings: Settings, role: ConductorRole, database: str) -> None:
    over = threading.Event()
    lost = threading.Event()

    def on_lost() -> None:
        lost.set()
        over.set()

    conductor = Conductor(
        ledger,
        settings["conductor_name"] or _name(role),
        state_folder=settings.state,
        drivers_folder=settings.shared_state,
        role=role,
        keys=key_file(ledger, settings, role.group),
        workers=settings["workers"],
        per_cloud=settings["workers_per_cloud"],
        ttl_s=settings["lease"],
        call_timeout_s=settings["call_timeout"],
        exec_paths=settings["exec_paths"],
        credential_sources=settings["credential_sources"] or (),
        on_lost=on_lost,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    page = _page(settings, conductor)
    trace.start(settings["otlp_endpoint"], "coterie-conductor", conductor.name)
    upkeep = ImageUpkeep(ledger, conductor.images)
    gc.freeze()  # what is here now stays: to look through it costs as much as several nodes
    conductor.start()
    upkeep.start()
    if page is not None:
        page.start()
    log.info(
        "conductor %s, release %s, works for %s: database %s, state folder %s, drivers %s, %d workers, weight %g, "
        "ring %s, lease %g s, pinned to %s",
        conductor.name,
        __version__,
        role.group or "clouds without a group",
        hide_credentials(database),
        settings.state,
        ", ".join(role.drivers or driver_names()),
        settings["workers"],
        role.weight,
        role.ring,
        settings["lease"],
        role.pinned or "nothing",
    )
    systemd.notify("READY=1")
    try:
        _watch(conductor, over)
        systemd.notify("STOPPING=1")
        _end(conductor, lost.is_set())
    finally:
        upkeep.stop()
        trace.stop()
        if page is not None:
            page.stop()


def _watch(conductor: Conductor, over: threading.Event) -> None:
    while not over.wait(_WATCH_S):
        if conductor.is_responsive:
            systemd.notify("WATCHDOG=1")
        if conductor.has_lapsed:
            raise LeaseLost(
                f"conductor {conductor.name} could send no heartbeat for too long",
                why="the database does not answer, or not to this process",
                remedy="a service manager starts it again; check the database and the way to it",
            )


def _page(settings: Settings, conductor: Conductor) -> Page | None:
    address: str | None = settings["conductor_listen"]
    if address is None:
        return None
    more = (
        Gauge("coterie_conductor_steps", "Steps in hand.", lambda: conductor.in_hand),
        Gauge("coterie_conductor_ready", "Whether it may work: its lease holds.", lambda: conductor.trouble is None),
    )
    return Page(address, settings["metrics_token"], lambda: conductor.trouble, lambda: process.metrics_text(*more))


def _end(conductor: Conductor, lost: bool) -> None:
    log.info("draining")
    conductor.drain(_DRAIN_S)  # also after a loss: calls under way end, and what they created is noted
    if lost:
        raise LeaseLost(
            f"the fleet has given conductor {conductor.name} up",
            why="it was silent for longer than its lease, or another one was started under its name",
            remedy="start it again; what it had in hand goes on elsewhere",
        )


def _name(role: ConductorRole) -> str:
    return f"{socket.gethostname()}-{role.group}" if role.group else socket.gethostname()


def _require_director(ledger: Ledger) -> None:
    with ledger.read() as tx:
        try:
            identity.director(tx)
        except LookupError as error:
            raise Unreachable(
                "this ledger has no Director yet", remedy="start one on the same database: coterie director"
            ) from error
