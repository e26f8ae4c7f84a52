"""The threads that run claimed steps, label by label: what one label came to is committed before the next begins."""

from __future__ import annotations

import logging
import threading
import time

from coterie.conductor.hand_back import Returns
from coterie.conductor.inbox import Inbox
from coterie.conductor.watchdog import Watchdog
from coterie.engine.committer import Committer
from coterie.engine.compute_slot import TURN
from coterie.engine.runner import Runner
from coterie.errors import LeaseLost
from coterie.ledger.errors import is_outage
from coterie.ledger.store import Ledger
from coterie.ledger.work.steps import Claim, Outcome
from coterie.telemetry.process import LOSSES, STEPS

log = logging.getLogger(__name__)


class Workers:
    """No thread waits for a commit: whoever has ended a label takes the next one, of whatever step."""

    def __init__(
        self, ledger: Ledger, inbox: Inbox, runner: Runner, returns: Returns, count: int, call_timeout_s: float
    ) -> None:
        self._ledger = ledger
        self._inbox = inbox
        self._runner = runner
        self._returns = returns
        self._count = count
        self._committer = Committer(ledger, self._settled, under_way=lambda: inbox.under_way)
        self._threads: set[threading.Thread] = set()
        self._at_work: dict[tuple[int, int], threading.Thread] = {}
        self.watchdog = Watchdog(ledger, call_timeout_s, self._replace)

    def start(self) -> None:
        for _ in range(self._count):
            self._spawn()

    def end(self, timeout_s: float) -> None:
        """Let running labels end and commit what they came to, as far as time allows."""
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
                self._lost(claim, lost)
            except BaseException as error:  # whatever a driver's libraries raise, the worker goes on
                _log_return(claim, error)
            abandoned = self.watchdog.leave(claim)
            self._at_work.pop(claim.key, None)
            if outcome is not None and not abandoned and self._inbox.commit(claim):
                self._committer.submit(outcome)
            else:
                self._drop(claim)
            if abandoned:
                TURN.give_up()
                self._threads.discard(threading.current_thread())
                return

    def _settled(self, outcome: Outcome, applied: bool, problem: BaseException | None) -> None:
        claim = outcome.claim
        if not applied:
            if problem is None:
                self._lost(claim, LeaseLost(f"step {claim.id} ({claim.subject}) belongs to another by now"))
            else:
                log.error("step %s could not be committed; it goes back to the queue", claim.id, exc_info=problem)
            self._drop(claim)
            return
        STEPS.add(claim.flow, outcome.move)
        if outcome.move == "next":
            claim.label, claim.data, claim.attempt = outcome.label, outcome.data, 0
            self._inbox.again(claim)
        else:
            self._leave(claim)

    def _lost(self, claim: Claim, why: LeaseLost) -> None:
        LOSSES.add("step")
        log.warning("dropped step %s of task %s: %s", claim.id, claim.task, why)

    def _drop(self, claim: Claim) -> None:
        self._returns.owe(claim)
        self._leave(claim)

    def _leave(self, claim: Claim) -> None:
        self._inbox.done(claim)
        self._ledger.written.notify()  # there is room for another claim

    def _replace(self, claim: Claim) -> None:
        """A call hangs: its thread is written off, and another takes its place."""
        hanging = self._at_work.pop(claim.key, None)
        if hanging is not None:  # otherwise it has ended meanwhile
            self._threads.discard(hanging)
        self._inbox.done(claim)
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
