"""The thread that answers questions about clouds: those of our share, one after the other."""

from __future__ import annotations

import logging
import threading
from typing import Any

from coterie.conductor.answers import answer
from coterie.conductor.standing import Standing
from coterie.cpi.contract import Cpi
from coterie.errors import CoterieError
from coterie.ledger import clouds, facts
from coterie.ledger.store import Ledger, time
from coterie.task.clouds import Clouds

log = logging.getLogger(__name__)

_RETRY_S = 1.0  # after the database did not answer
_AT_ONCE = 8


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

    def answer_questions(self) -> None:
        while not self._stopping.is_set():
            seen = self._ledger.version
            try:
                rest = 0.0 if self._answer_some() else self._ledger.poll_s
            except Exception:
                log.exception("could not answer questions about clouds; trying again")
                rest = _RETRY_S
            if rest:
                self._ledger.wait(seen, rest)

    def _answer_some(self) -> int:
        with self._ledger.read() as tx:
            share = self._standing.now(tx).share
            if not facts.open_questions(tx, share):
                return 0
        with self._ledger.write_unheard() as tx:
            wanted = facts.claim(tx, self._owner, self._lease_s, share, _AT_ONCE)
            asked_at = time(tx)
        self._clouds.refresh()
        for question in wanted:
            self._answer_one(question, asked_at)
        return len(wanted)

    def _answer_one(self, question: facts.Wanted, asked_at: float) -> None:
        try:
            data, error = self._answered(question)
        except CoterieError as problem:
            data, error = None, problem.facts()
        with self._ledger.write() as tx:
            facts.answer(tx, self._owner, question, asked_at, data, error)

    def _answered(self, question: facts.Wanted) -> tuple[Any, dict[str, Any] | None]:
        if question.what.partition(":")[0] == "reseal":
            return self._clouds.resealed(question.cloud, question.driver, self._properties(question)), None
        return answer(self._cloud_of(question), question.what, question.question)

    def _properties(self, question: facts.Wanted) -> dict[str, Any]:
        with self._ledger.read() as tx:
            row = clouds.get(tx, question.cloud)
        return row.properties if row else {}

    def _cloud_of(self, question: facts.Wanted) -> Cpi:
        if question.properties is None:
            return self._clouds.get(question.cloud)
        return self._clouds.open(question.cloud, question.driver, question.properties)
