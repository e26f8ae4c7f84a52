"""The threads that run claimed steps, label by label; each outcome is committed before the step's next label begins.

Here too: the watchdog for calls that hang, and the queue of steps to hand back to the ledger.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Container, Sequence

from coterie.conductor.inbox import Inbox
from coterie.engine.committer import Committer
from coterie.engine.compute_slot import SLOT
from coterie.engine.runner import Runner
from coterie.errors import LeaseLost
from coterie.ledger.errors import DatabaseError, is_outage, reason
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.stages import Ready
from coterie.ledger.work.steps import Claim, Outcome
from coterie.telemetry.process import LOSSES, STEPS

log = logging.getLogger(__name__)
_REST_S = 1.0  # a step that fails at once and always must not be retried without a pause


class Workers:
    """No thread waits for a commit: a worker that has ended a label takes the next label of any step."""

    def __init__(
        self,
        ledger: Ledger,
        inbox: Inbox,
        runner: Runner,
        hand_backs: HandBackQueue,
        count: int,
        call_timeout_s: float,
        *,
        find_owners: Callable[[Sequence[Ready]], set[str]],
        on_room: Callable[[], None],
    ) -> None:
        """`on_room`: called when another claim fits."""
        self._ledger = ledger
        self._inbox = inbox
        self._runner = runner
        self._hand_backs = hand_backs
        self._count = count
        self._on_room = on_room
        self._committer = Committer(ledger, self._on_committed, lambda: inbox.under_way, find_owners)
        self._threads: set[threading.Thread] = set()
        self._at_work: dict[tuple[int, int], threading.Thread] = {}
        self.watchdog = Watchdog(ledger, call_timeout_s, self._replace)

    def start(self) -> None:
        for _ in range(self._count):
            self._spawn()

    def end(self, timeout_s: float) -> None:
        """Let running labels end and commit their outcomes, as far as time allows."""
        give_up = time.monotonic() + timeout_s
        for thread in list(self._threads):
            thread.join(max(0.0, give_up - time.monotonic()))
        self._committer.close(max(0.0, give_up - time.monotonic()))

    def _work(self) -> None:
        while (claim := self._inbox.get()) is not None:
            self._at_work[claim.key] = threading.current_thread()
            self.watchdog.enter(claim)
            outcome: Outcome | None = None
            try:
                outcome = self._runner.run(claim)
            except LeaseLost as lost:
                self._count_loss(claim, lost)
            except BaseException as error:  # the worker goes on, no matter what a driver's libraries raise
                _log_return(claim, error)
            abandoned = self.watchdog.leave(claim)
            self._at_work.pop(claim.key, None)
            if outcome is not None and not abandoned and self._inbox.commit(claim):
                self._committer.submit(outcome)
            else:
                self._note_arrivals(outcome)
                self._drop(claim)
            if abandoned:
                SLOT.release()
                self._threads.discard(threading.current_thread())
                return

    def _note_arrivals(self, outcome: Outcome | None) -> None:
        """The step goes on elsewhere; what the call of this claim has created all the same must be known."""
        if outcome is None or not outcome.writes:
            return
        try:
            with self._ledger.write() as tx:
                steps.note_arrivals(tx, [outcome])
        except DatabaseError as error:
            log.warning("what step %s created late is not noted: %s", outcome.claim.id, reason(error))

    def _on_committed(self, outcome: Outcome, applied: bool, problem: BaseException | None) -> None:
        claim = outcome.claim
        if not applied:
            if problem is None:
                self._count_loss(claim, LeaseLost(f"another conductor holds step {claim.id} ({claim.subject}) by now"))
            else:
                log.error("step %s could not be committed; it goes back to the queue", claim.id, exc_info=problem)
            self._drop(claim)
            return
        STEPS.add(claim.flow, outcome.move)
        if outcome.move == "fail":
            told = " ".join(str(outcome.error.get(name) or "") for name in ("what", "why")) if outcome.error else ""
            log.warning("step %s of task %s failed (%s, %s): %s", claim.id, claim.task, claim.flow, claim.subject, told)
        if outcome.move == "next":
            claim.label, claim.data, claim.attempt = outcome.label, outcome.data, 0
            self._inbox.resume(claim)
        else:
            self._leave(claim)

    def _count_loss(self, claim: Claim, why: LeaseLost) -> None:
        LOSSES.add("step")
        log.warning("dropped step %s of task %s: %s", claim.id, claim.task, why)

    def _drop(self, claim: Claim) -> None:
        self._hand_backs.add(claim)
        self._leave(claim)
        self._ledger.notify_ready()

    def _leave(self, claim: Claim) -> None:
        self._inbox.finish(claim)
        self._on_room()

    def _replace(self, claim: Claim) -> None:
        """A call hangs: forget its thread and start another one."""
        hanging = self._at_work.pop(claim.key, None)
        if hanging is not None:  # otherwise the call has ended meanwhile
            self._threads.discard(hanging)
        self._inbox.finish(claim)
        self._spawn()

    def _spawn(self) -> None:
        thread = threading.Thread(target=self._work, name="work", daemon=True)
        self._threads.add(thread)
        thread.start()


def _log_return(claim: Claim, error: BaseException) -> None:
    if is_outage(error):
        log.warning("the database did not answer: step %s of task %s goes back to the queue", claim.id, claim.task)
    else:
        log.error("step %s of task %s broke; it goes back to the queue", claim.id, claim.task, exc_info=error)


class Watchdog:
    """Finds steps whose call hangs, and hands them back: the epoch makes the ledger refuse their late results."""

    def __init__(self, ledger: Ledger, limit_s: float, replace: Callable[[Claim], None]) -> None:
        self._ledger = ledger
        self._limit_s = limit_s
        self._replace = replace
        # By claim, not by step: a step may be claimed again before the thread of its last claim has ended.
        self._running: dict[tuple[int, int], tuple[float, Claim]] = {}
        self._given_up: set[tuple[int, int]] = set()  # being handed back: their results are dropped
        self._lock = threading.Lock()

    def enter(self, claim: Claim) -> None:
        """A label begins: its calls get the whole time limit."""
        with self._lock:
            self._running[claim.key] = (time.monotonic(), claim)

    def leave(self, claim: Claim) -> bool:
        """True if the step was given up meanwhile, and another thread replaces this one."""
        with self._lock:
            return self._running.pop(claim.key, None) is None or claim.key in self._given_up

    def look(self) -> None:
        late = time.monotonic() - self._limit_s
        with self._lock:
            hanging = [claim for since, claim in self._running.values() if since < late]
        for claim in hanging:
            if self._give_up(claim, late):
                log.warning("step %s (%s, %s) hangs; it is tried again", claim.id, claim.subject, claim.label)
                self._hand_back(claim)

    def _give_up(self, claim: Claim, late: float) -> bool:
        """False if its label has ended since we looked."""
        with self._lock:
            since, _ = self._running.get(claim.key, (late, claim))
            if since < late:
                self._given_up.add(claim.key)
            return since < late

    def _hand_back(self, claim: Claim) -> None:
        handed_back = False
        try:
            with self._ledger.write() as tx:
                steps.hand_back(tx, claim)
            handed_back = True
        finally:  # if the database did not answer, the next look() tries again, unless the thread has ended meanwhile
            with self._lock:
                self._given_up.discard(claim.key)
                left = claim.key not in self._running
                if handed_back:
                    self._running.pop(claim.key, None)
            if handed_back or left:
                self._replace(claim)


class HandBackQueue:
    """Steps that were dropped half-way: they go back to the ledger's queue as soon as the database answers.

    Without this a step whose commit failed, or whose claim was committed while the answer got lost, would stay ours
    for ever, since our heartbeat continues.
    """

    def __init__(self, ledger: Ledger, owner: str) -> None:
        self._ledger = ledger
        self._owner = owner
        self._uncertain = False
        self._queued: queue.SimpleQueue[Claim] = queue.SimpleQueue()

    def add(self, claim: Claim) -> None:
        self._queued.put(claim)

    def mark_uncertain(self) -> None:
        """A claim failed, and it is unknown whether the database committed it: compare with the ledger's rows."""
        self._uncertain = True

    def hand_back_all(self, in_hand: Container[int]) -> None:
        """Hand all steps back; the epoch decides whether they still are ours. After an exception they stay queued."""
        while not self._queued.empty():
            claim = self._queued.get()
            try:
                with self._ledger.write() as tx:
                    steps.hand_back(tx, claim, _REST_S)
            except BaseException:
                self._queued.put(claim)
                raise
        if self._uncertain:
            with self._ledger.write() as tx:
                for step in steps.running(tx, self._owner):
                    if step not in in_hand:
                        steps.hand_back_one(tx, self._owner, step)
            self._uncertain = False
