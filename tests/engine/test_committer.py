"""When outcomes are committed: together while others may follow soon, at once when none can."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from coterie.engine import committer as module
from coterie.engine.committer import Committer
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.steps import Claim, Outcome


class Commits:
    """In place of the ledger: when each batch came, and how large it was."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, int]] = []
        self.came = threading.Event()

    @contextmanager
    def write_outcomes(self) -> Iterator[None]:
        yield

    def commit(self, tx: None, outcomes: list[Outcome], admitted: list[Any]) -> set[tuple[int, int]]:
        self.batches.append((time.monotonic(), len(outcomes)))
        self.came.set()
        return {one.claim.key for one in outcomes}


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    made = Commits()
    monkeypatch.setattr(steps, "commit", made.commit)
    return made


def outcome(number: int) -> Outcome:
    claim = Claim(number, 1, 1, "flow", "begin", "s", None, None, 1, 0, None, {}, "c#1")
    return Outcome(claim, "done", "begin", {})


def test_the_outcome_of_the_last_step_under_way_is_committed_at_once(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LINGER_S", 60.0)
    monkeypatch.setattr(module, "_LONGEST_S", 60.0)
    under_way = [2]
    committer = Committer(cast(Ledger, commits), lambda *settled: None, lambda: under_way[0])
    for number in (1, 2):
        under_way[0] -= 1
        committer.submit(outcome(number))
    assert commits.came.wait(30), "it waits for outcomes that cannot come"
    assert [size for _, size in commits.batches] == [2]
    committer.close(10)


def test_the_committer_sleeps_while_it_waits_for_the_next_outcome(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many conductors on few cores, looks at the queue every few milliseconds cost more than the commits."""
    monkeypatch.setattr(module, "_LINGER_S", 0.5)
    monkeypatch.setattr(module, "_LONGEST_S", 2.0)
    looks = []
    committer = Committer(cast(Ledger, commits), lambda *settled: None, lambda: looks.append(1) or 1)
    for number in range(20):
        committer.submit(outcome(number))
        time.sleep(0.01)
    assert commits.came.wait(30)
    assert sum(size for _, size in commits.batches) == 20
    assert len(looks) <= 20 + 10 * len(commits.batches), "one at each submit, and a few while it waits"
    committer.close(10)
