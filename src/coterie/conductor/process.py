"""One conductor: its threads and how they start and stop. What a step does is in `flows`; its lease is in `ledger`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from coterie import __version__
from coterie.cleanup.flows import FLOWS as CLEANUP_FLOWS
from coterie.conductor.inbox import Inbox
from coterie.conductor.membership import ConductorRole, Heartbeat, RingView
from coterie.conductor.questions import Questions
from coterie.conductor.signatures import Signatures
from coterie.conductor.workers import HandBackQueue, Workers
from coterie.cpi.contract import Cpi
from coterie.cpi.load import driver_names
from coterie.engine import stored
from coterie.engine.clouds import Clouds, Unopened
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.fence import Lease, Observer
from coterie.engine.flow import Flow, Work
from coterie.engine.images import Images
from coterie.engine.runner import Retry, Runner
from coterie.engine.secrets import SecretReader
from coterie.errors import KeyMissing
from coterie.flows import FLOWS as TASK_FLOWS
from coterie.ids import Ids
from coterie.ledger.errors import DatabaseError, is_outage, reason
from coterie.ledger.rows import clouds, identity, pins
from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.steps import Claim
from coterie.seal.keys import KeyFile
from coterie.telemetry.process import LOSSES

log = logging.getLogger(__name__)

FLOWS = {**TASK_FLOWS, **CLEANUP_FLOWS}


def params_of(flow: str) -> list[str]:
    """The keys of a step's data that say what it is to do; none of a flow that this release does not know."""
    return stored.keys_of(FLOWS[flow].params) if flow in FLOWS else []


_RETRY_S = 1.0  # after the database did not answer
_CLAIM_PAUSE_S = 0.05  # between two claims while _MANY steps are in hand
_MANY = 8
_STUCK_S = 30.0  # longer than any heartbeat takes: a connection is opened, probed and answers within its deadlines
_LAPSED_LEASES = 10
_MEMORIES = 64  # tasks whose look-ups are kept


class Conductor:
    """Runs the steps and answers the questions of its share of the rings."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        *,
        state_folder: Path,
        drivers_folder: Path | None = None,
        role: ConductorRole | None = None,
        keys: KeyFile | None = None,
        workers: int = 32,
        per_cloud: int = 0,
        ttl_s: float = 10.0,
        call_timeout_s: float = 600.0,
        exec_paths: Sequence[str] = (),
        credential_sources: Sequence[str] = (),
        retry: Retry | None = None,
        ids: Ids | None = None,
        observe: Observer | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.incarnation = (ids or Ids()).intent()
        self.owner = conductors.owner(name, self.incarnation)
        self.resumed: list[int] = []
        self._ledger = ledger
        self._ids = ids or Ids()
        self._ttl_s = ttl_s
        self._lease = Lease(ttl_s)
        self._on_lost = on_lost
        self._role = role or ConductorRole()
        self._drivers = driver_names() if self._role.drivers is None else self._role.drivers
        self._ring_view = RingView(name, self.owner, FLOWS)
        with ledger.read() as tx:
            self._director = identity.director(tx).uuid
        coordinator = LedgerCoordinator(ledger, self.owner)
        self._clouds = Clouds(
            ledger,
            self._director,
            coordinator,
            self._lease,
            drivers_folder=drivers_folder or state_folder,
            keys=keys,
            exec_paths=exec_paths,
            credential_sources=credential_sources,
            observe=observe,
        )
        self._secrets = SecretReader(ledger, keys)
        self._signatures = Signatures(ledger)
        self.images = Images(ledger, state_folder / "stemcells")
        self._inbox = Inbox(workers, per_cloud or max(1, workers * 3 // 4))
        self._hand_backs = HandBackQueue(ledger, self.owner)
        runner = Runner(FLOWS, self._open_work, retry or Retry(), self._secrets)
        self._workers = Workers(
            ledger,
            self._inbox,
            runner,
            self._hand_backs,
            workers,
            call_timeout_s,
            find_owners=self._ring_view.owners,
            on_room=self._wake_if_short_of_room,
        )
        self._in_vain: tuple[list[str], int, float] | None = None  # full clouds besides which nothing was found; until
        self._short_of_room = False  # whether there may be steps of ours that did not fit
        self._room_wakes = 0
        ledger.wake_as(name)
        self._memories: dict[int, dict[Any, Any]] = {}
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._heartbeat = Heartbeat(
            ledger, name, self.incarnation, self._lease, ttl_s, refused=self._lose, after=self._workers.watchdog.look
        )
        self._questions = Questions(
            ledger,
            self.owner,
            self._ring_view,
            self._clouds,
            self._secrets,
            self._signatures,
            lease_s=ttl_s,
            patience_s=call_timeout_s,
            stopping=self._stopping,
        )

    def start(self) -> None:
        since = self._lease.moment()
        with self._ledger.write() as tx:
            before = tasks.unfinished(tx)
            conductors.register(
                tx,
                self.name,
                self.incarnation,
                group=self._role.group,
                drivers=self._drivers,
                release=__version__,
                pinned=self._role.pinned,
                flows=tuple(FLOWS),
                weight=self._role.weight,
                ring=self._role.ring,
                ttl_s=self._ttl_s,
            )
        self.resumed = before
        self._lease.renew(since)
        self._spawn(self._heartbeat.run)
        for target in (self._claim_steps, self._questions.answer_questions):
            self._threads.append(self._spawn(target))
        self._workers.start()

    def drain(self, timeout_s: float = 30.0) -> None:
        """Claim nothing more, let running labels end, hand the rest back, leave the fleet."""
        self._stopping.set()
        self._inbox.close()
        self._ledger.ready.notify()
        self._ledger.asked.notify()
        try:
            with self._ledger.write() as tx:  # at once: the other conductors take over our share while we finish
                conductors.drain(tx, self.name, self.incarnation)
            self._await_threads(timeout_s)
            self._heartbeat.stop()
            self._lease.lose()  # a thread that outlasted the join must not call a cloud: its step goes elsewhere
            with self._ledger.write() as tx:
                conductors.leave(tx, self.name, self.incarnation)
        except DatabaseError:
            log.exception("the database does not answer: this conductor cannot deregister, its lease will expire")
        self._heartbeat.stop()

    def _await_threads(self, timeout_s: float) -> None:
        give_up = time.monotonic() + timeout_s
        self._workers.end(timeout_s)
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))

    @property
    def busy(self) -> bool:
        return bool(self._inbox.steps)

    @property
    def in_hand(self) -> int:
        """Steps that are claimed and not yet committed or handed back."""
        return len(self._inbox.steps)

    @property
    def trouble(self) -> str | None:
        """The reason why it takes no work now; None when it does."""
        if self._stopping.is_set():
            return "this conductor is ending"
        return None if self._lease.held else "its heartbeat is too old: the database does not answer"

    @property
    def is_responsive(self) -> bool:
        """Whether its heartbeat thread goes on, with or without success."""
        return time.monotonic() - self._heartbeat.tried_at < self._ttl_s + _STUCK_S

    @property
    def has_lapsed(self) -> bool:
        """Whether no heartbeat has succeeded for so long that a new process is the better remedy."""
        return self._lease.ended_for > _LAPSED_LEASES * self._ttl_s

    # -- threads --

    def _claim_steps(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            seen = self._ledger.ready.version
            try:
                rest = self._claim()
            except Exception as error:
                log.error("could not claim steps: %s; trying again", reason(error), exc_info=not is_outage(error))
                self._hand_backs.mark_uncertain()
                rest = _RETRY_S
            if rest > 0:
                self._ledger.ready.wait(seen, rest)
            if rest > 0 and self.in_hand >= _MANY:
                # Enough steps are in hand, and every outcome wakes this thread: do not query again at once.
                time.sleep(max(0.0, began + _CLAIM_PAUSE_S - time.monotonic()))

    # -- details --

    def _claim(self) -> float:
        """Claim steps that are ready; how long to wait before the next claim, unless something is written meanwhile."""
        self._hand_backs.hand_back_all(self._inbox.steps)
        longest = self._ledger.poll_s
        room, full = self._inbox.capacity()
        self._short_of_room = True
        if not room or not self._lease.held or self._stopping.is_set():
            return min(longest, _RETRY_S)
        news = self._ledger.ready.version - self._room_wakes
        if self._in_vain and self._in_vain[:2] == (full, news) and (rest := self._in_vain[2] - time.monotonic()) > 0:
            return rest  # room in clouds that are full all the same is no reason to look again
        with self._ledger.write_silently() as tx:  # a claim makes nothing ready: there is nothing to wake others for
            claims = self._ring_view.current(tx).claims
            chosen = claims.choose(tx, room, full)
            taken = claims.take(tx, room, chosen, full)
            # After a look that found nothing of ours, what is due already belongs to others.
            due = None if taken else claims.next_later(tx, full) if chosen == [] else claims.next_due(tx, full)
            present, pinned = (clouds.all_clouds(tx), pins.all_pins(tx)) if taken else ({}, {})
        if not taken:
            self._short_of_room = bool(full)
            rest = longest if due is None else min(due if due > 0 else _RETRY_S, longest)
            self._in_vain = (full, news, time.monotonic() + rest)
            return rest
        self._clouds.refresh(present, pinned)
        self._forget_ended_tasks()
        self._inbox.put(taken)
        return 0.0

    def _wake_if_short_of_room(self) -> None:
        if self._short_of_room:
            self._room_wakes += 1
            self._ledger.ready.notify()

    def _open_work(self, claim: Claim, flow: Flow[Any, Any]) -> Work[Any, Any]:
        self._lease.require()
        params, progress = flow.read(self._signatures.read_signed(claim), claim.data)
        cpi = self._open_cloud(claim.cloud or "")
        memory = self._memories.setdefault(claim.task, {})
        return Work(
            claim, cpi, self._ledger, self._ids, self._director, self.images, params, progress, memory, self._secrets
        )

    def _open_cloud(self, cloud: str) -> Cpi:
        try:
            return self._clouds.get(cloud)
        except KeyMissing:
            raise
        except Exception as error:
            return cast(Cpi, Unopened(error))

    def _forget_ended_tasks(self) -> None:
        if len(self._memories) > _MEMORIES:
            alive = self._inbox.tasks
            self._memories = {task: kept for task, kept in list(self._memories.items()) if task in alive}

    def _lose(self) -> None:
        log.error("the fleet has removed this conductor; it ends")
        LOSSES.add("conductor")
        self._lease.lose()
        self._stopping.set()
        if self._on_lost is not None:
            self._on_lost()

    def _spawn(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True)
        thread.start()
        return thread
