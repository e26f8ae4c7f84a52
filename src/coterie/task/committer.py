"""Group commit: outcomes of many steps, which arrive while one transaction runs, share the next one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from coterie.ledger import steps
from coterie.ledger.steps import Outcome
from coterie.ledger.store import Ledger

_LARGEST = 200
_LINGER_S = 0.02  # how long a commit waits for company at most; much less than any cloud call takes
_SLICE_S = 0.004


class Committer:
    """One thread that commits. `commit` returns True when the outcome was applied, False when the claim was lost.

    `running` counts the steps whose outcomes may come soon: nobody is waited for who cannot come.
    """

    def __init__(self, ledger: Ledger, running: Callable[[], int]) -> None:
        self._ledger = ledger
        self._running = running
        self._queue: queue.SimpleQueue[tuple[Outcome, Future[bool]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def commit(self, outcome: Outcome) -> bool:
        promise: Future[bool] = Future()
        self._queue.put((outcome, promise))
        return promise.result()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while batch := self._gather():
            self._apply(batch)

    def _apply(self, batch: list[tuple[Outcome, Future[bool]]]) -> None:
        try:
            with self._ledger.write() as tx:
                applied = steps.commit(tx, [outcome for outcome, _ in batch])
        except BaseException as error:  # the waiters must hear of it, whatever it is
            if len(batch) > 1:  # one that cannot be committed must not take the others with it
                for one in batch:
                    self._apply([one])
                return
            batch[0][1].set_exception(error)
            return
        for outcome, promise in batch:
            promise.set_result(outcome.claim.key in applied)

    def _gather(self) -> list[tuple[Outcome, Future[bool]]]:
        first = self._queue.get()
        if first is None:
            return []
        self._await_company()
        batch = [first]
        while len(batch) < _LARGEST and not self._queue.empty():
            more = self._queue.get()
            if more is None:
                self._queue.put(None)
                break
            batch.append(more)
        return batch

    def _await_company(self) -> None:
        # Not get(timeout=…): in CPython 3.11 a short one that is overtaken by its own deadline waits for ever.
        give_up = time.monotonic() + _LINGER_S
        while 1 + self._queue.qsize() < self._running() and time.monotonic() < give_up:
            time.sleep(_SLICE_S)
