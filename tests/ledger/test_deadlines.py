"""A database that does not answer any more behind connections that stay open: every call ends by its deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from coterie.ledger import postgresql, store
from coterie.ledger.errors import is_outage
from coterie.ledger.store import Ledger
from tests.cluster.fleet import until
from tests.peers.tcp_proxy import Proxy, proxy

SHORT_S = 1.0


@pytest.fixture
def way(postgres_url: str) -> Iterator[Proxy]:
    with proxy(postgres_url) as made:
        yield made


@pytest.fixture
def ledger(postgres_url: str, way: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setattr(postgresql, "_ANSWER_S", SHORT_S)
    monkeypatch.setattr(postgresql, "_PROBE_S", SHORT_S)
    monkeypatch.setattr(postgresql, "_LIVENESS_S", SHORT_S)
    opened = Ledger.open(way.url(postgres_url))
    until(lambda: opened.poll_s > 1, "no wake-ups", 60)
    yield opened
    opened.close()


def test_a_statement_on_a_half_open_connection_fails_in_time_and_the_next_one_works(ledger: Ledger, way: Proxy) -> None:
    began = time.monotonic()
    with pytest.raises(sa.exc.OperationalError, match="did not answer") as failed, ledger.read() as tx:
        tx.execute(sa.text("SELECT 1"))
        assert way.mute()
        tx.execute(sa.text("SELECT 1"))
    assert is_outage(failed.value)
    assert time.monotonic() - began < SHORT_S + 10
    with ledger.read() as tx:
        assert tx.execute(sa.text("SELECT 1")).scalar_one() == 1


def test_a_rested_half_open_connection_is_replaced_without_an_error(
    ledger: Ledger, way: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger.read() as tx:
        tx.execute(sa.text("SELECT 1"))
    monkeypatch.setattr(store, "_TRUSTED_S", 0.0)
    assert way.mute()
    with ledger.read() as tx:
        assert tx.execute(sa.text("SELECT 1")).scalar_one() == 1


def test_a_thread_may_ask_for_an_answer_sooner_or_give_it_all_the_time(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.OperationalError), ledger.answers_within(0.2), ledger.read() as tx:
        tx.execute(sa.text("SELECT pg_sleep(20)"))
    with ledger.answers_within(None), ledger.read() as tx:
        tx.execute(sa.text(f"SELECT pg_sleep({2 * SHORT_S})"))


def test_wake_ups_come_again_after_their_connection_was_half_open(ledger: Ledger, way: Proxy) -> None:
    assert way.mute()
    until(lambda: ledger.poll_s == 1, "nothing notices that no wake-ups can come", 60)
    until(lambda: ledger.poll_s > 1, "no new connection listens", 60)


def test_the_url_sets_how_long_a_new_connection_may_take(
    postgres_url: str, way: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_CONNECT_S", 60)
    way.latency_s = 60.0
    began = time.monotonic()
    with pytest.raises(sa.exc.OperationalError, match="timeout"):
        Ledger.open(f"{way.url(postgres_url)}?connect_timeout=2")
    assert time.monotonic() - began < 30
