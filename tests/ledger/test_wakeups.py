"""Wake-ups between processes (here: two ledgers) on PostgreSQL, with the server going away in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from coterie.ledger import store
from coterie.ledger.store import Ledger


@contextmanager
def two(url: str) -> Iterator[tuple[Ledger, Ledger]]:
    one, other = Ledger.open(url), Ledger.open(url)
    try:
        until_listening(one, other)
        yield one, other
    finally:
        one.close()
        other.close()


def until_listening(*ledgers: Ledger) -> None:
    give_up = time.monotonic() + 60
    while not all(ledger.poll_s > 1 for ledger in ledgers):
        assert time.monotonic() < give_up, "no process listens"
        time.sleep(0.01)
    time.sleep(0.05)  # the wake-up sent when listening began has arrived


def woken(ledger: Ledger, seen: int, write: threading.Event) -> bool:
    ledger.written.wait(seen, 20)
    return write.is_set() and ledger.written.version != seen


def test_a_write_wakes_the_other_process(postgres_url: str) -> None:
    with two(postgres_url) as (one, other):
        seen, written = other.written.version, threading.Event()
        found: list[bool] = []
        waiter = threading.Thread(target=lambda: found.append(woken(other, seen, written)))
        waiter.start()
        written.set()
        with one.write():
            pass
        waiter.join(60)
        assert found == [True]


def test_a_silent_write_and_a_read_send_no_wake_up(postgres_url: str) -> None:
    with two(postgres_url) as (one, other):
        seen = other.written.version
        with one.write_silently():
            pass
        with one.read():
            pass
        other.written.wait(seen, 0.3)
        assert other.written.version == seen


def test_a_cut_connection_is_opened_again(postgres_url: str) -> None:
    with two(postgres_url) as (one, other):
        with psycopg.connect(postgres_url, autocommit=True) as operator:
            operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query = 'LISTEN coterie' AND datname = current_database()"
            )
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            seen = other.written.version
            with one.write():
                pass
            other.written.wait(seen, 0.2)
            if other.written.version != seen and other.poll_s > 1:
                return
        raise AssertionError("the other process is not woken any more")


def test_sqlite_is_polled(tmp_path: object) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    assert ledger.poll_s == 1.0
    ledger.close()


def test_a_question_wakes_the_answering_threads_and_another_write_does_not(postgres_url: str) -> None:
    with two(postgres_url) as (one, other):
        seen, written = other.asked.version, other.written.version
        with one.write():
            pass
        other.written.wait(written, 20)
        assert other.asked.version == seen
        one.notify_question()
        other.asked.wait(seen, 20)
        assert other.asked.version != seen


def test_a_wake_up_of_an_older_release_may_be_a_question(postgres_url: str) -> None:
    with two(postgres_url) as (_, other), psycopg.connect(postgres_url, autocommit=True) as older:
        seen = other.asked.version
        older.execute("NOTIFY coterie")
        other.asked.wait(seen, 20)
        assert other.asked.version != seen


def test_a_connection_that_was_ended_while_it_rested_is_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two(postgres_url) as (one, _), psycopg.connect(postgres_url, autocommit=True) as operator:
        monkeypatch.setattr(store, "_TRUSTED_S", 0.0)
        with one.read() as tx:
            resting = tx.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        operator.execute("SELECT pg_terminate_backend(%s, 5000)", [resting])
        with one.read() as tx:
            assert tx.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() != resting


def test_outcomes_wake_no_other_process(postgres_url: str) -> None:
    """Each wake-up costs every process that listens, and steps end all the time."""
    with two(postgres_url) as (one, other):
        seen, ready, mine = other.written.version, other.ready.version, one.written.version
        with one.write_outcomes():
            pass
        other.written.wait(seen, 0.3)
        assert (other.written.version, other.ready.version) == (seen, ready)
        assert one.written.version != mine


def test_a_question_and_its_answer_wake_no_conductor_to_look_for_steps(postgres_url: str) -> None:
    """Each look reads what is ready for the whole group, and a plan asks several questions."""
    with two(postgres_url) as (one, other):
        ready, asked, written = other.ready.version, other.asked.version, other.written.version
        one.notify_question()
        other.asked.wait(asked, 20)
        with one.write_answer():
            pass
        other.written.wait(written, 20)
        assert other.asked.version != asked
        assert other.written.version != written
        assert other.ready.version == ready


def test_steps_that_are_ready_wake_only_their_owner(postgres_url: str) -> None:
    with two(postgres_url) as (one, other):
        one.wake_as("a")
        other.wake_as("b")
        seen = other.ready.version
        one.notify_ready(["a", "c"])
        other.ready.wait(seen, 0.3)
        assert other.ready.version == seen
        one.notify_ready(["b", "c"])
        other.ready.wait(seen, 20)
        assert other.ready.version != seen
