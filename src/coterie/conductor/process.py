"""One conductor: its threads and how they start and stop. What a step does is in `task`; who may do it, in `ledger`."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie import __version__
from coterie.cleanup.flows import FLOWS as CLEANUP_FLOWS
from coterie.conductor.answers import answer
from coterie.conductor.watchdog import Watchdog
from coterie.cpi.contract import Cpi
from coterie.cpi.load import driver_names
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger import conductors, facts, identity, steps, tasks
from coterie.ledger import store as clock
from coterie.ledger.steps import Claim
from coterie.ledger.store import Ledger
from coterie.task.clouds import Clouds
from coterie.task.committer import Committer
from coterie.task.coordinator import LedgerCoordinator
from coterie.task.fence import Lease, Observer
from coterie.task.flow import Work
from coterie.task.flows import FLOWS as TASK_FLOWS
from coterie.task.retry import Retry
from coterie.task.runner import Runner

log = logging.getLogger(__name__)

FLOWS = {**TASK_FLOWS, **CLEANUP_FLOWS}
_POLL_S = 1.0  # for what other processes write; our own writes wake us at once
_MEMORIES = 64  # tasks whose look-ups are remembered


class Conductor:
    """Runs steps of every group when `group` is None (embedded), else those of its own group only."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        *,
        state_folder: Path,
        group: str | None = None,
        workers: int = 16,
        ttl_s: float = 10.0,
        call_timeout_s: float = 600.0,
        retry: Retry | None = None,
        ids: Ids | None = None,
        observe: Observer | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.incarnation = (ids or Ids()).intent()
        self.owner = conductors.owner(name, self.incarnation)
        self.group = group
        self.resumed: list[int] = []
        self._ledger = ledger
        self._ids = ids or Ids()
        self._workers = workers
        self._ttl_s = ttl_s
        self._lease = Lease(ttl_s)
        self._on_lost = on_lost
        self._drivers = driver_names()
        with ledger.read() as tx:
            self._director = identity.director(tx).uuid
        coordinator = LedgerCoordinator(ledger, self.owner)
        self._clouds = Clouds(
            ledger, self._director, coordinator, self._lease, state_folder=state_folder, observe=observe
        )
        self._store = str(state_folder / "stemcells")
        self._committer = Committer(ledger)
        self._runner = Runner(FLOWS, self._committer, self._open_work, retry or Retry())
        self._inbox: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._in_hand: dict[tuple[int, int], Claim] = {}  # by id and epoch
        self._memories: dict[int, dict[Any, Any]] = {}
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._watchdog = Watchdog(ledger, call_timeout_s, self._replace_worker)

    def start(self) -> None:
        since = self._lease.moment()
        with self._ledger.write() as tx:
            before = tasks.unfinished(tx)
            conductors.register(
                tx,
                self.name,
                self.incarnation,
                group=self.group or "",
                drivers=self._drivers,
                release=__version__,
            )
        self.resumed = before
        self._lease.renew(since)
        for target in (self._heartbeat, self._claim_steps, self._answer_questions):
            self._spawn(target)
        for _ in range(self._workers):
            self._spawn(self._work)

    def drain(self, timeout_s: float = 30.0) -> None:
        """Claim nothing more, let running labels end, hand the rest back, leave the fleet."""
        self._stopping.set()
        self._ledger.nudge()
        for _ in range(self._workers):
            self._inbox.put(None)
        give_up = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))
        with self._ledger.write() as tx:
            conductors.leave(tx, self.name, self.incarnation)
        self._committer.close()

    @property
    def busy(self) -> bool:
        return bool(self._in_hand)

    # -- threads --

    def _heartbeat(self) -> None:
        while not self._stopping.wait(self._ttl_s / 5):
            since = self._lease.moment()
            try:
                with self._ledger.write() as tx:
                    held = conductors.beat(tx, self.name, self.incarnation)
                    conductors.reap(tx, self._ttl_s)
            except Exception:
                log.exception("heartbeat failed; the lease ends in at most %.0f s", self._ttl_s)
                continue
            if not held:
                self._lose()
                return
            self._lease.renew(since)
            try:
                self._watchdog.look()
            except Exception:
                log.exception("could not look for hanging calls; trying again")

    def _claim_steps(self) -> None:
        while not self._stopping.is_set():
            seen = self._ledger.version
            try:
                rest = self._claim()
            except Exception:
                log.exception("could not claim steps; trying again")
                rest = _POLL_S
            if rest > 0:
                self._ledger.wait(seen, rest)

    def _work(self) -> None:
        while (claim := self._inbox.get()) is not None:
            if self._stopping.is_set():
                continue
            self._watchdog.enter(claim)
            try:
                self._runner.run(claim)
            except Exception:
                log.exception("step %s could not be committed; its lease decides what becomes of it", claim.id)
                self._hand_back(claim)
            finally:
                abandoned = self._watchdog.leave(claim)
                self._in_hand.pop((claim.id, claim.epoch), None)
                self._ledger.nudge()  # there is room for another claim
            if abandoned:
                return

    def _answer_questions(self) -> None:
        while not self._stopping.is_set():
            seen = self._ledger.version
            try:
                asked = self._answer_some()
            except Exception:
                log.exception("could not answer questions about clouds; trying again")
                asked = 0
            if not asked:
                self._ledger.wait(seen, _POLL_S)

    # -- details --

    def _claim(self) -> float:
        """Take what is ready; how long to rest before the next look, unless something is written meanwhile."""
        room = 2 * self._workers - len(self._in_hand)
        if room < self._workers // 2 or not self._lease.held or self._stopping.is_set():
            return _POLL_S
        with self._ledger.read() as tx:
            due = steps.next_due(tx)
        if due is None or due > 0:
            return min(due or _POLL_S, _POLL_S)
        with self._ledger.write() as tx:
            claims = steps.claim(tx, self.owner, room, flows=FLOWS, group=self.group, drivers=self._drivers)
        if not claims:
            return _POLL_S  # ready, but not for us
        self._clouds.refresh()
        self._forget_ended_tasks()
        for claim in claims:
            self._in_hand[claim.id, claim.epoch] = claim
            self._inbox.put(claim)
        return 0.0

    def _answer_some(self) -> int:
        with self._ledger.read() as tx:
            waiting = facts.open_questions(tx)
        if not waiting:
            return 0
        with self._ledger.write() as tx:
            wanted = facts.claim(tx, self.owner, self._ttl_s, group=self.group, drivers=self._drivers, limit=8)
            asked_at = clock.time(tx)
        self._clouds.refresh()
        for question in wanted:
            try:
                data, error = answer(self._cloud_of(question), question.what, question.question)
            except CoterieError as problem:
                data, error = None, problem.facts()
            with self._ledger.write() as tx:
                facts.answer(tx, self.owner, question, asked_at, data, error)
        return len(wanted)

    def _cloud_of(self, question: facts.Wanted) -> Cpi:
        if question.properties is None:
            return self._clouds.get(question.cloud)
        return self._clouds.open(question.cloud, question.driver, question.properties)

    def _open_work(self, claim: Claim) -> Work:
        self._lease.require()
        cpi = self._clouds.get(claim.cloud or "")
        memory = self._memories.setdefault(claim.task, {})
        return Work(claim, cpi, self._ledger, self._ids, self._director, self._store, dict(claim.data), memory)

    def _forget_ended_tasks(self) -> None:
        if len(self._memories) > _MEMORIES:
            alive = {claim.task for claim in list(self._in_hand.values())}
            self._memories = {task: kept for task, kept in self._memories.items() if task in alive}

    def _hand_back(self, claim: Claim) -> None:
        try:
            with self._ledger.write() as tx:
                steps.hand_back(tx, claim, _POLL_S)  # what fails at once and always must not be tried without a rest
        except Exception:
            log.exception("could not hand step %s back", claim.id)

    def _replace_worker(self, claim: Claim) -> None:
        """A call hangs: its thread is written off, and another takes its place."""
        self._in_hand.pop((claim.id, claim.epoch), None)
        self._spawn(self._work)

    def _lose(self) -> None:
        log.error("the fleet has given this conductor up; it ends")
        self._lease.lose()
        self._stopping.set()
        if self._on_lost is not None:
            self._on_lost()

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True)
        self._threads.append(thread)
        thread.start()
