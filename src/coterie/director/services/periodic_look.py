"""The periodic look: starts tasks that look at every cloud's VMs and resurrect dead nodes, deletes old history, and
seals what an older release stored in plain."""

from __future__ import annotations

import logging
import threading

from coterie.cleanup.clock import note_clock
from coterie.errors import CoterieError
from coterie.flows.look import Look
from coterie.ledger.rows import deployments, events, machine_secrets
from coterie.ledger.store import Ledger, time
from coterie.ledger.work import tasks
from coterie.requests.looks import look
from coterie.requests.machine_secrets import seal_stored
from coterie.requests.resurrection import resurrect

log = logging.getLogger(__name__)
_DAY_S = 86400.0
_BATCH = 100  # rows in one transaction: other threads write too


class PeriodicLook:
    """One thread. `every_s` 0: it never looks; `keep_days` 0: history is kept for ever."""

    def __init__(self, ledger: Ledger, every_s: float, keep_days: float = 0.0, how: Look | None = None) -> None:
        self._ledger = ledger
        self._how = how
        self._every_s = every_s
        self._keep_s = keep_days * _DAY_S
        self._all_sealed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="periodic_look", daemon=True)

    def start(self) -> None:
        if self._every_s:
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self.look_once()
            except Exception:
                log.exception("the periodic look failed; trying again in %.0f s", self._every_s)

    def look_once(self) -> None:
        """Resurrect the nodes that the last look found dead, then start the next look."""
        note_clock(self._ledger)
        with self._ledger.read() as tx:
            waiting = deployments.resurrecting(tx)
        for name in waiting:
            self._resurrect(name)
        look(self._ledger, self._how)
        self.seal_once()
        if self._keep_s:
            self._forget()

    def seal_once(self) -> None:
        """Seal secrets that an older release stored in plain, until none is left; drop those that were replaced."""
        try:
            self._all_sealed = self._all_sealed or seal_stored(self._ledger)
            with self._ledger.write_silently() as tx:
                machine_secrets.forget_unused(tx)
        except Exception:
            log.exception("could not seal what is stored in plain; trying again with the next look")

    def _forget(self) -> None:
        for forget in (tasks.forget_before, events.forget_before):
            dropped = _BATCH
            while dropped == _BATCH and not self._over.is_set():
                with self._ledger.write() as tx:
                    dropped = forget(tx, time(tx) - self._keep_s, _BATCH)

    def _resurrect(self, name: str) -> None:
        try:
            task = resurrect(self._ledger, name, self._how)
        except CoterieError as error:
            log.warning("cannot resurrect nodes of %s now: %s", name, error)
            return
        except Exception:
            # A failure in one deployment must not stop the resurrection of others, nor the next look.
            log.exception("could not resurrect nodes of %s", name)
            return
        if task is not None:
            log.info("task %s recreates dead nodes of %s", task, name)
