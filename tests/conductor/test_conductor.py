"""A conductor from start to drain: a successor replaces it, calls that hang are given up, questions are answered."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.conductor.questions import answer
from coterie.engine.fence import Lease
from coterie.errors import LeaseLost, Unreachable
from coterie.ledger.store import WROTE, Ledger
from coterie.ledger.tables import steps
from coterie.ledger.work import conductors
from coterie.requests import start
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import group, manifest, site
from tests.requests.test_groups import TWO


def until(reached: object) -> None:
    give_up = time.monotonic() + 60
    while not reached():  # type: ignore[operator] # a callable
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_successor_of_the_same_name_ends_the_first(ledger: Ledger, tmp_path: Path) -> None:
    ended = threading.Event()
    with site(ledger, tmp_path) as here:
        first = Conductor(ledger, "twin", state_folder=tmp_path, ttl_s=0.5, on_lost=ended.set)
        first.start()
        second = Conductor(ledger, "twin", state_folder=tmp_path, ttl_s=0.5)
        second.start()
        assert ended.wait(60)
        assert here.deploy(manifest(group("a", 1)))
        first.drain(5.0)
        second.drain(5.0)


def test_it_resumes_the_tasks_of_its_predecessor(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        here.cpi().check()
        faults.add(open_datacenter(tmp_path / "sandbox.db").store, "create_vm", "latency", ms=300)
        task = start.deploy(ledger, here.request(manifest(group("a", 6))), None, None)
        until(lambda: "group.ready" in here.kinds(task) or "stemcell.ready" in here.kinds(task))
        here.conductor.drain(0.0)
        here.conductor = here.new_conductor()
        here.conductor.start()
        assert here.conductor.resumed == [task]
        here.wait(task)
        assert len(here.held("vm")) == 6


def test_a_drained_conductor_holds_no_step(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("a", 3)))
        other = here.new_conductor("other")
        other.start()
        other.drain(5.0)
        with ledger.read() as tx:
            owned = tx.execute(sa.select(steps.c.id).where(steps.c.owner.is_not(None))).all()
            assert owned == []
            rows = tx.execute(sa.text("SELECT name FROM conductors")).scalars().all()
        assert rows == ["c"]


def test_a_call_that_hangs_is_given_up_and_done_by_another_thread(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    with site(ledger, tmp_path) as here:
        here.conductor.drain(5.0)
        here.conductor = Conductor(ledger, "c", state_folder=tmp_path, workers=2, ttl_s=1.0, call_timeout_s=0.5)
        here.conductor.start()
        here.cpi().check()
        store = open_datacenter(tmp_path / "sandbox.db").store
        faults.add(store, "create_vm", "hang", times=1, ms=4000)
        here.deploy(manifest(group("a", 1)))
        assert len(here.held("vm")) == 1
        faults.clear(store)
    ledger.close()


def test_a_question_that_hangs_is_asked_again(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    with site(ledger, tmp_path) as here:
        here.conductor.drain(5.0)
        here.conductor = Conductor(ledger, "c", state_folder=tmp_path, workers=2, ttl_s=1.0, call_timeout_s=0.5)
        here.conductor.start()
        here.cpi().check()
        store = open_datacenter(tmp_path / "sandbox.db").store
        faults.add(store, "*", "hang", times=1, ms=600_000)
        assert here.plan(manifest(group("a", 1))).changes
        faults.clear(store)
    ledger.close()


def test_a_thread_that_outlasts_the_drain_calls_no_cloud(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("a", 1)))
        cloud = here.conductor._clouds.get("lab")
        here.conductor.drain(5.0)
        with pytest.raises(LeaseLost):
            cloud.has_vm("vm-1")
    ledger.close()


def test_a_late_heartbeat_is_no_answer_about_a_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    late = [True, True]
    require = Lease.require

    def once_late(lease: Lease) -> None:
        if threading.current_thread().name == "question" and late:
            late.pop()
            raise LeaseLost("this process no longer holds its lease")
        require(lease)

    monkeypatch.setattr(Lease, "require", once_late)
    with site(ledger, tmp_path) as here:
        assert here.plan(manifest(group("a", 1))).changes
        assert not late
    ledger.close()


def test_a_cloud_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    with site(ledger, tmp_path) as here:
        here.conductor.drain(5.0)
        here.conductor = Conductor(ledger, "c", state_folder=tmp_path, workers=4)
        here.conductor.start()
        here.config = TWO.replace("single-writer", f"single-writer, state: {tmp_path / 'far.db'}")
        here.cpi().check()
        store = open_datacenter(tmp_path / "sandbox.db").store
        faults.add(store, "create_vm", "hang", ms=600_000)
        many = manifest(group("a", 12, azs="z1")).replace("canaries: 1", "canaries: 0")
        stuck = start.deploy(ledger, here.request(many), None, None)
        until(lambda: _running(ledger, "create_vm") >= 3)
        faults.add(store, "*", "hang", ms=600_000)

        def ask() -> None:
            with contextlib.suppress(Unreachable):  # the conductor leaves before the cloud answers
                here.plan(manifest(group("a", 13, azs="z1")))

        asked = threading.Thread(target=ask, daemon=True)
        asked.start()
        here.deploy(manifest(group("b", 4, azs="f1")).replace("name: dep", "name: other"))
        assert here.task(stuck).state == "running"
        assert asked.is_alive()
        faults.clear(store)
    ledger.close()


def _running(ledger: Ledger, label: str) -> int:
    with ledger.read() as tx:
        held = sa.select(sa.func.count()).where(steps.c.state == "running", steps.c.label == label)
        return tx.execute(held).scalar_one()


def test_questions_of_a_newer_release_are_refused_with_a_remedy(tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "l.db")
    with site(ledger, tmp_path) as here:
        data, error = answer(here.cpi(), "from-the-future:x", None)
    assert data is None
    assert error is not None
    assert "upgrade" in error["remedy"]
    ledger.close()


@pytest.mark.parametrize("silence", [0.0, 100.0])
def test_only_silent_conductors_are_removed(ledger: Ledger, silence: float) -> None:
    with ledger.write() as tx:
        conductors.register(tx, "x", "1", group="", drivers=[], release="0")
        tx.execute(sa.text(f"UPDATE conductors SET heartbeat = heartbeat - {silence}"))
        conductors.reap(tx)
        assert conductors.beat(tx, "x", "1") is (silence < 10.0)


def test_two_conductors_share_the_work(ledger: Ledger, tmp_path: Path) -> None:
    with site(ledger, tmp_path) as here:
        other = here.new_conductor("d")
        other.start()
        here.deploy(manifest(group("a", 40)))
        assert len(here.held("vm")) == 40
        other.drain(5.0)


def test_a_claim_wakes_no_other_process(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim is a write, and the others would all look at the queue for it."""
    words: list[str] = []
    with site(ledger, tmp_path) as here:
        here.deploy(manifest(group("a", 1)))  # what happens once per conductor is over
        monkeypatch.setattr(ledger, "_wakeups", Listening(words))
        task = start.deploy(ledger, here.request(manifest(group("a", 9))), None, None)
        started = words.count(WROTE)
        here.wait(task)
        monkeypatch.undo()
    assert words.count(WROTE) == started


def test_a_conductor_whose_cloud_is_full_looks_again_only_for_news(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes make room all the time, and a look reads the steps of the whole group."""
    with site(ledger, tmp_path) as here:
        conductor = here.conductor
        here.deploy(manifest(group("a", 1)))
        conductor._stopping.set()  # its own thread claims nothing
        ledger.ready.notify()
        conductor._threads[0].join(60)
        conductor._stopping.clear()
        looks: list[object] = []
        current = conductor._ring_view.current
        monkeypatch.setattr(conductor._ring_view, "current", lambda tx: (looks.append(tx), current(tx))[1])
        monkeypatch.setattr(conductor._inbox, "capacity", lambda: (4, ["lab"]))
        assert conductor._claim() > 0
        for _ in range(5):
            conductor._wake_if_short_of_room()
            assert conductor._claim() > 0
        assert len(looks) == 1
        ledger.notify_ready()
        conductor._claim()
        assert len(looks) == 2
        monkeypatch.setattr(conductor._inbox, "capacity", lambda: (4, []))
        conductor._claim()
        assert len(looks) == 3, "the cloud has room again"


class Listening:
    """In place of the connection that carries wake-ups between processes."""

    listening = True

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def send(self, word: str = WROTE) -> None:
        self._words.append(word)
