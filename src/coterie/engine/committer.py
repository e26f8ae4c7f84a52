"""Group commit: outcomes of many steps, which arrive while one transaction runs, share the next one."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from coterie.engine.compute_slot import SLOT
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.stages import Ready
from coterie.ledger.work.steps import Outcome

log = logging.getLogger(__name__)

_LARGEST = 200
_LINGER_S = 0.05  # how long a commit waits for the next outcome; much less than any cloud call takes
_LONGEST_S = 0.25  # and for all: where many processes share the cores, outcomes come slowly, and each commit costs more

Settled = Callable[[Outcome, bool, BaseException | None], None]


class Committer:
    """One thread that commits, and reports whether each outcome was applied (its claim may be lost), or what broke.

    `under_way` counts the steps whose outcomes may come soon: while there are none, a commit does not wait.
    `find_owners` names the conductors of steps that became ready: they are woken, and no others.
    """

    def __init__(
        self,
        ledger: Ledger,
        settled: Settled,
        under_way: Callable[[], int],
        find_owners: Callable[[Sequence[Ready]], set[str]] = lambda admitted: set(),
    ) -> None:
        self._ledger = ledger
        self._find_owners = find_owners
        self._settled = settled
        self._under_way = under_way
        self._queue: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._last = threading.Event()  # nothing is under way: no outcome follows soon
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def submit(self, outcome: Outcome) -> None:
        """Its step is no longer under way."""
        self._queue.put(outcome)
        if not self._under_way():
            self._last.set()

    def close(self, timeout_s: float | None = None) -> None:
        """Commit what was submitted, and end."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while batch := self._gather():
            self._apply(batch)

    def _apply(self, batch: list[Outcome]) -> None:
        admitted: list[Ready] = []
        try:
            with SLOT.hold(), self._ledger.write_outcomes() as tx:
                applied = steps.commit(tx, batch, admitted)
                SLOT.release()  # the rest waits for the disk
        except BaseException as error:  # reported, whatever it is
            if len(batch) > 1:  # one that cannot be committed must not take the others with it
                for one in batch:
                    self._apply([one])
                return
            self._report(batch[0], False, error)
            return
        for outcome in batch:
            self._report(outcome, outcome.claim.key in applied, None)
        if admitted:
            self._ledger.notify_ready(self._find_owners(admitted))

    def _report(self, outcome: Outcome, applied: bool, problem: BaseException | None) -> None:
        try:
            self._settled(outcome, applied, problem)
        except Exception:
            log.exception("step %s of task %s is lost to this process", outcome.claim.id, outcome.claim.task)

    def _gather(self) -> list[Outcome]:
        first = self._queue.get()
        if first is None:
            return []
        self._wait_for_more()
        batch = [first]
        while len(batch) < _LARGEST and not self._queue.empty():
            more = self._queue.get()
            if more is None:
                self._queue.put(None)
                break
            batch.append(more)
        return batch

    def _wait_for_more(self) -> None:
        # Not get(timeout=…): in CPython 3.11 a short one that is overtaken by its own deadline waits for ever. And it
        # would wake this thread for each outcome, while the workers want the interpreter.
        moment = time.monotonic()
        longest, give_up, seen = moment + _LONGEST_S, moment + _LINGER_S, self._queue.qsize()
        while moment < min(give_up, longest):
            self._last.clear()
            if not self._under_way():
                break
            self._last.wait(min(give_up, longest) - moment)
            moment = time.monotonic()
            if self._queue.qsize() > seen:
                give_up, seen = moment + _LINGER_S, self._queue.qsize()
