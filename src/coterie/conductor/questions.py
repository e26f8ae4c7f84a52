"""Answers questions about clouds: those of our share, one at a time for each cloud."""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Any

from coterie.conductor.answers import answer
from coterie.conductor.ring_view import Standing
from coterie.cpi.contract import Cpi
from coterie.engine.clouds import Clouds
from coterie.errors import CoterieError, LeaseLost, NotFound
from coterie.ledger.rows import clouds, facts
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, time

log = logging.getLogger(__name__)

_RETRY_S = 1.0  # after the database did not answer
_AT_ONCE = 8  # clouds that are asked at the same time


class Questions:
    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        standing: Standing,
        clouds: Clouds,
        *,
        lease_s: float,
        patience_s: float,
        stopping: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._standing = standing
        self._clouds = clouds
        self._lease_s = lease_s
        self._stopping = stopping
        self._patience_s = patience_s
        self._asking: dict[str, float] = {}  # one question at a time for each cloud, and since when

    def answer_questions(self) -> None:
        """Each in a thread of its own: a cloud that hangs keeps one of them, and the others are asked meanwhile."""
        while not self._stopping.is_set():
            seen = self._ledger.asked.version
            try:
                begun = self._begin_next()
            except Exception:
                log.exception("could not answer questions about clouds; trying again")
                self._ledger.asked.wait(seen, _RETRY_S)
                continue
            if not begun:
                self._ledger.asked.wait(seen, self._ledger.poll_s)

    def _begin_next(self) -> bool:
        busy = self._busy()
        if len(busy) >= _AT_ONCE:
            return False
        with self._ledger.read() as tx:
            share = self._standing.now(tx).share
            if not facts.open_questions(tx, share):
                return False
        with self._ledger.write_silently() as tx:
            wanted = facts.claim(tx, self._owner, self._lease_s, share, besides=busy)
            asked_at = time(tx)
        if wanted is None:
            return False
        self._asking[wanted.cloud] = begun = monotonic()
        threading.Thread(target=self._ask, args=(wanted, asked_at, begun), name="question", daemon=True).start()
        return True

    def _busy(self) -> list[str]:
        """Who has not answered for very long is asked again, beside the thread that still waits."""
        late = monotonic() - self._patience_s
        return [cloud for cloud, since in list(self._asking.items()) if since > late]

    def _ask(self, wanted: facts.Wanted, asked_at: float, begun: float) -> None:
        try:
            self._clouds.refresh()
            self._answer_one(wanted, asked_at)
        except Exception:
            log.exception("could not answer a question about cloud %s; it is asked again", wanted.cloud)
        finally:
            if self._asking.get(wanted.cloud) == begun:
                del self._asking[wanted.cloud]
            self._ledger.asked.notify()  # another question about this cloud may wait for its turn

    def _answer_one(self, question: facts.Wanted, asked_at: float) -> None:
        try:
            data, error = self._answered(question)
        except LeaseLost:
            self._give_back(question)
            return
        except CoterieError as problem:
            data, error = None, problem.facts()
        with self._ledger.write() as tx:
            facts.answer(tx, self._owner, question, asked_at, data, error)

    def _give_back(self, question: facts.Wanted) -> None:
        """That our heartbeat is late says nothing of the cloud: who has a lease answers, maybe we ourselves soon."""
        self._stopping.wait(_RETRY_S)
        with self._ledger.write() as tx:
            facts.give_back(tx, self._owner, question)

    def _answered(self, question: facts.Wanted) -> tuple[Any, dict[str, Any] | None]:
        if question.what.partition(":")[0] == "reseal":
            return self._clouds.resealed(self._configured(question.cloud)), None
        return answer(self._cloud_of(question), question.what, question.question)

    def _configured(self, name: str) -> CloudRow:
        with self._ledger.read() as tx:
            row = clouds.get(tx, name)
        if row is None:
            raise NotFound(f"cloud {name!r} is no longer configured", remedy="put it back: coterie clouds set FILE")
        return row

    def _cloud_of(self, question: facts.Wanted) -> Cpi:
        if question.properties is None:
            return self._clouds.get(question.cloud)
        return self._clouds.open(question.cloud, question.driver, question.properties)
