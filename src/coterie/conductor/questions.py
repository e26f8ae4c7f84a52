"""Answers questions about clouds: those of our share, one at a time for each cloud."""

from __future__ import annotations

import logging
import threading

from coterie.conductor.answers import answer
from coterie.conductor.standing import Standing
from coterie.cpi.contract import Cpi
from coterie.errors import CoterieError
from coterie.ledger import facts
from coterie.ledger.store import Ledger, time
from coterie.task.clouds import Clouds

log = logging.getLogger(__name__)

_RETRY_S = 1.0  # after the database did not answer
AT_ONCE = 8  # clouds that are asked at the same time


class Questions:
    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        standing: Standing,
        clouds: Clouds,
        *,
        lease_s: float,
        stopping: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._standing = standing
        self._clouds = clouds
        self._lease_s = lease_s
        self._stopping = stopping
        self._choosing = threading.Lock()
        self._asking: set[str] = set()  # one question at a time for each cloud

    def answer_questions(self) -> None:
        """Run by several threads: a cloud that hangs keeps one of them, and the others answer for the rest."""
        while not self._stopping.is_set():
            seen = self._ledger.asked.version
            try:
                rest = 0.0 if self._answer_next() else self._ledger.poll_s
            except Exception:
                log.exception("could not answer questions about clouds; trying again")
                rest = _RETRY_S
            if rest:
                self._ledger.asked.wait(seen, rest)

    def _answer_next(self) -> bool:
        with self._ledger.read() as tx:
            share = self._standing.now(tx).share
            if not facts.open_questions(tx, share):
                return False
        with self._choosing, self._ledger.write_unheard() as tx:
            wanted = facts.claim(tx, self._owner, self._lease_s, share, besides=self._asking)
            asked_at = time(tx)
            if wanted is not None:
                self._asking.add(wanted.cloud)
        if wanted is None:
            return False
        try:
            self._clouds.refresh()
            self._answer_one(wanted, asked_at)
        finally:
            self._asking.discard(wanted.cloud)
            self._ledger.asked.ring()  # somebody may have left out another question about this cloud
        return True

    def _answer_one(self, question: facts.Wanted, asked_at: float) -> None:
        try:
            data, error = answer(self._cloud_of(question), question.what, question.question)
        except CoterieError as problem:
            data, error = None, problem.facts()
        with self._ledger.write() as tx:
            facts.answer(tx, self._owner, question, asked_at, data, error)

    def _cloud_of(self, question: facts.Wanted) -> Cpi:
        if question.properties is None:
            return self._clouds.get(question.cloud)
        return self._clouds.open(question.cloud, question.driver, question.properties)
