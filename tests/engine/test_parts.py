"""The small parts of the engine, each by itself."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from coterie.cpi.contract import Capabilities, CpiError, OutcomeUnknown, Throttled, Unavailable, revive
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.fence import FencedCpi, Lease
from coterie.engine.runner import Retry
from coterie.errors import CoterieError, LeaseLost
from coterie.ledger.store import Ledger
from coterie.ledger.tables import changes
from coterie.ledger.tables import domains as domain_rows
from coterie.ledger.work import domains
from tests.ledger.blank import sqlite_ledger


def test_retries_back_off_and_end() -> None:
    retry, chance = Retry(tries=4, first_s=1.0, longest_s=3.0), random.Random(1)
    error = CpiError("x", retryable=True)
    delays = [retry.delay(error, attempt, chance) for attempt in (1, 2, 3, 4)]
    assert delays[3] is None
    assert 0.5 <= (delays[0] or 0) <= 1.0
    assert 1.0 <= (delays[1] or 0) <= 2.0
    assert 1.5 <= (delays[2] or 0) <= 3.0


def test_what_is_final_is_not_retried_and_a_throttle_is_obeyed() -> None:
    chance = random.Random(1)
    assert Retry().delay(CpiError("x"), 1, chance) is None
    assert Retry().delay(Throttled("x", details={"retry_after": 7}), 1, chance) == 7.0
    hasty = Throttled("x", details={"retry_after": 0.2})
    rests = [Retry().delay(hasty, attempt, chance) for attempt in range(1, 25)]
    assert all(rests) and sum(rest or 0 for rest in rests) > 300
    assert rests[5] >= 8.0  # type: ignore[operator] # none is None
    assert Retry().delay(hasty, 25, chance) is None
    assert Retry(longest_asked_s=60).delay(Throttled("x", details={"retry_after": 1e9}), 1, chance) == 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Driver:
    def __init__(self) -> None:
        self.calls = 0

    def capabilities(self) -> Capabilities:
        self.calls += 1
        return Capabilities("x")

    def has_vm(self, cid: str) -> bool:
        if cid == "bad":
            raise CpiError("bad")
        return True


def test_no_call_leaves_after_the_lease() -> None:
    clock, seen = Clock(), []
    lease = Lease(10.0, clock)
    cpi: Any = FencedCpi(Driver(), lease, lambda method, seconds, error: seen.append((method, type(error))))
    assert cpi.has_vm("a")
    clock.now += 10.0
    with pytest.raises(LeaseLost):
        cpi.has_vm("a")
    lease.renew(clock.now)
    with pytest.raises(CpiError):
        cpi.has_vm("bad")
    lease.lose()
    with pytest.raises(LeaseLost):
        cpi.has_vm("a")
    assert seen == [("has_vm", type(None)), ("has_vm", CpiError)]


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    clock = Clock()
    lease = Lease(10.0, clock)
    since = lease.moment()
    clock.now += 9.0
    lease.renew(since)
    clock.now += 1.0
    assert not lease.held


def test_capabilities_are_asked_for_once() -> None:
    driver = Driver()
    cpi: Any = FencedCpi(driver, Lease(10.0))
    assert cpi.capabilities() is cpi.capabilities()
    assert driver.calls == 1


class Recorder:
    """A driver whose domain is one list; it notes how changes came together."""

    cloud = "lab"

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
        self.gate.wait(600)
        assert all(0 <= change["waited_s"] < 600 for change in changes)
        self.batches.append([{key: one for key, one in change.items() if key != "waited_s"} for change in changes])
        if any(change.get("break") for change in changes):
            raise CpiError("the cloud refused", remedy="ask again", retryable=True)
        return [{"ok": True, "n": change["n"]} for change in changes]


@pytest.fixture
def ledger_here(tmp_path: Path) -> Any:
    ledger = sqlite_ledger(tmp_path / "l.db")
    yield ledger
    ledger.close()


def test_waiting_changes_go_together_and_each_gets_its_own_answer(ledger_here: Ledger) -> None:
    driver, answers = Recorder(), {}
    driver.gate.clear()
    coordinator = LedgerCoordinator(ledger_here, "me")

    def submit(n: int) -> None:
        answers[n] = coordinator.submit(driver, "d", {"n": n})  # type: ignore[arg-type] # only `apply` is used

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    while _count_changes(ledger_here) < 12:
        assert all(thread.is_alive() for thread in threads)
        threads[0].join(0.05)
    driver.gate.set()
    for thread in threads:
        thread.join()
    assert {n: answer["n"] for n, answer in answers.items()} == {n: n for n in range(12)}
    assert len(driver.batches) < 12
    assert _waiting(ledger_here) == []


def _count_changes(ledger: Ledger) -> int:
    """Only read: a writer that comes back at once would keep the others out of SQLite."""
    with ledger.read() as tx:
        return len(tx.execute(changes.select()).all())


def _waiting(ledger: Ledger) -> list[Any]:
    with ledger.write() as tx:
        return [body for _, body, _ in domains.waiting(tx, "d", 60.0)]


def test_a_refusal_reaches_the_one_who_asked(ledger_here: Ledger) -> None:
    coordinator = LedgerCoordinator(ledger_here, "me")
    answer = coordinator.submit(Recorder(), "d", {"n": 1, "break": True})  # type: ignore[arg-type] # as above
    assert answer["ok"] is False
    assert answer["error"]["what"] == "the cloud refused"


def test_a_domain_of_another_is_waited_for_and_then_taken(ledger_here: Ledger) -> None:
    with ledger_here.write() as tx:
        domains.withdraw(tx, domains.submit(tx, "d", {}))
        assert domains.take(tx, "d", "other", 0.3) == 1
    answer = LedgerCoordinator(ledger_here, "me").submit(Recorder(), "d", {"n": 5})  # type: ignore[arg-type] # as above
    assert answer["n"] == 5
    with ledger_here.write() as tx:
        assert not domains.acknowledge(tx, "d", "other", 1, [])


def test_a_turn_is_made_whole_while_it_is_ours_and_is_not_after_another_took_it(ledger_here: Ledger) -> None:
    coordinator = LedgerCoordinator(ledger_here, "me")
    others: list[int | None] = []

    class Late(Recorder):
        def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
            if not self.batches:
                self._lapse(domain)
                coordinator.hold(domain)
                self._let_another_try(domain)
                self._lapse(domain)
                self._let_another_try(domain)
                with pytest.raises(Unavailable):
                    coordinator.hold(domain)
            return super().apply(domain, changes)

        def _lapse(self, domain: str) -> None:
            with ledger_here.write() as tx:
                assert domains.renew(tx, domain, "me", 1, -1.0)

        def _let_another_try(self, domain: str) -> None:
            with ledger_here.write() as tx:
                others.append(domains.take(tx, domain, "other", 0.0))

    driver: Any = Late()
    assert coordinator.submit(driver, "d", {"n": 1})["ok"]
    assert others == [None, 2]
    assert len(driver.batches) == 2, "what was not acknowledged is applied again in the next turn"


def test_a_change_that_a_dead_process_submitted_is_not_applied_after_its_time(ledger_here: Ledger) -> None:
    driver: Any = Recorder()
    with ledger_here.write() as tx:
        domains.submit(tx, "d", {"n": 1})
        tx.execute(changes.update().values(created_at=changes.c.created_at - 1000))
    assert LedgerCoordinator(ledger_here, "me").submit(driver, "d", {"n": 2})["ok"]
    assert driver.batches == [[{"n": 2}]]
    assert _waiting(ledger_here) == []


def test_a_domain_that_never_comes_free_is_an_unknown_outcome(ledger_here: Ledger) -> None:
    with ledger_here.write() as tx:
        domains.withdraw(tx, domains.submit(tx, "d", {}))
        domains.take(tx, "d", "other", 60.0)
    coordinator = LedgerCoordinator(ledger_here, "me", patience_s=0.2)
    with pytest.raises(OutcomeUnknown):
        coordinator.submit(Recorder(), "d", {"n": 5})  # type: ignore[arg-type] # as above
    assert _waiting(ledger_here) == []


def test_who_applied_a_change_for_longer_than_the_patience_gets_its_outcome(ledger_here: Ledger) -> None:
    class Slow(Recorder):
        def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
            while time.monotonic() < ends:
                time.sleep(0.05)
            return super().apply(domain, changes)

    driver, coordinator = Slow(), LedgerCoordinator(ledger_here, "me", patience_s=1.0)
    ends = time.monotonic() + 2.0
    assert coordinator.submit(driver, "d", {"n": 5}) == {"ok": True, "n": 5}  # type: ignore[arg-type] # as above


class Breaking(Recorder):
    """Breaks over changes with a `defect`, however many come with them."""

    def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
        self.gate.wait(600)
        assert all(0 <= change["waited_s"] < 600 for change in changes)
        self.batches.append([{key: one for key, one in change.items() if key != "waited_s"} for change in changes])
        for change in changes:
            if change.get("defect") == "short":
                return []
            if change.get("defect"):
                raise KeyError("password-of-the-cloud")
        return [{"ok": True, "n": change["n"]} for change in changes]


@pytest.mark.parametrize("defect", ["key", "short"])
def test_a_change_that_breaks_the_driver_fails_at_once_and_alone(ledger_here: Ledger, defect: str) -> None:
    driver, answers, began = Breaking(), {}, time.monotonic()
    driver.gate.clear()
    coordinator = LedgerCoordinator(ledger_here, "me")

    def submit(n: int) -> None:
        change = {"n": n, "defect": defect} if n in (1, 3) else {"n": n}
        answers[n] = coordinator.submit(driver, "d", change)  # type: ignore[arg-type] # only `apply` is used

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    while _count_changes(ledger_here) < 6:
        threads[0].join(0.05)
    driver.gate.set()
    for thread in threads:
        thread.join()
    assert {n for n, answer in answers.items() if answer["ok"]} == {0, 2, 4, 5}
    for n in (1, 3):
        error = revive(answers[n]["error"])
        assert isinstance(error, OutcomeUnknown), "the driver may have created something before it broke"
        assert not error.retryable, "it would break again"
        assert error.why == ("unexpected KeyError" if defect == "key" else "unexpected ValueError")
        assert "password" not in str(answers[n])
    assert coordinator.submit(driver, "d", {"n": 7})["ok"]  # type: ignore[arg-type] # as above
    assert time.monotonic() - began < 20, "no turn waited for the lease of another to end"
    assert _waiting(ledger_here) == []


@pytest.mark.parametrize("error", [LeaseLost("lost"), OperationalError("x", {}, Exception("no server"))])
def test_what_ends_this_process_s_work_is_no_outcome_of_a_change(ledger_here: Ledger, error: Exception) -> None:
    class Ending(Recorder):
        def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
            raise error

    with ledger_here.write() as tx:
        domains.submit(tx, "d", {"n": 1})
    with pytest.raises(type(error)):
        LedgerCoordinator(ledger_here, "me").submit(Ending(), "d", {"n": 2})  # type: ignore[arg-type] # as above
    assert _waiting(ledger_here) == [{"n": 1}], "another process applies it"


def test_what_the_lease_has_no_time_for_waits_for_the_next_turn(ledger_here: Ledger) -> None:
    class Slow(Breaking):
        def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
            time.sleep(0.6 if len(changes) == 1 else 0)
            return super().apply(domain, changes)

    with ledger_here.write() as tx:
        left = [domains.submit(tx, "d", {"n": n, "defect": "key"}) for n in (1, 2)]
    driver = Slow()
    answer = LedgerCoordinator(ledger_here, "me", lease_s=1.0).submit(driver, "d", {"n": 3})  # type: ignore[arg-type] # as above
    assert answer == {"ok": True, "n": 3}
    assert [len(batch) for batch in driver.batches] == [3, 1, 2, 1, 1]
    with ledger_here.read() as tx:
        outcomes = [domains.outcome(tx, number) for number in left]
    assert [outcome["ok"] for outcome in outcomes if outcome] == [False, False]


def test_after_a_break_nothing_is_applied_in_a_domain_that_is_anothers_by_then(ledger_here: Ledger) -> None:
    class Losing(Breaking):
        def apply(self, domain: str, changes: list[Any]) -> list[dict[str, Any]]:
            if len(changes) > 1:
                with ledger_here.write() as tx:
                    tx.execute(domain_rows.update().values(expires=0))
                    assert domains.take(tx, "d", "other", 600.0)
            return super().apply(domain, changes)

    with ledger_here.write() as tx:
        domains.submit(tx, "d", {"n": 1, "defect": "key"})
    driver = Losing()
    with pytest.raises(OutcomeUnknown):
        LedgerCoordinator(ledger_here, "me", patience_s=1.0).submit(driver, "d", {"n": 2})  # type: ignore[arg-type] # as above
    assert [len(batch) for batch in driver.batches] == [2]


def test_errors_carry_what_to_do() -> None:
    error = CoterieError("x", why="y", remedy="z", details={"a": 1})
    assert str(error) == "x: y"
    assert error.facts() == {
        "code": "failed",
        "what": "x",
        "why": "y",
        "remedy": "z",
        "retryable": False,
        "details": {"a": 1},
    }
