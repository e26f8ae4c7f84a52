"""How many transactions a process has at once on PostgreSQL: a burst of readers opens few connections."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import sqlalchemy as sa

from coterie.ledger import store
from coterie.ledger.store import Ledger


def test_many_readers_share_a_few_connections(postgres_url: str) -> None:
    ledger = Ledger.open(postgres_url)
    backends: set[int] = set()

    def read() -> None:
        with ledger.read() as tx:
            backends.add(tx.execute(sa.text("SELECT pg_backend_pid() FROM pg_sleep(0.05)")).scalar_one())

    try:
        threads = [threading.Thread(target=read) for _ in range(4 * store._READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert 0 < len(backends) <= store._READERS
    finally:
        ledger.close()


def test_a_read_is_no_transaction_but_its_statement(postgres_url: str) -> None:
    """BEGIN and COMMIT would be a round trip each, and READ COMMITTED shows each statement what is committed anyhow."""
    ledger = Ledger.open(postgres_url)
    try:
        with ledger.read() as tx, ledger.write_silently() as other:
            connection: Any = tx.connection.dbapi_connection
            assert tx.execute(sa.text("SELECT 1")).scalar_one() == 1
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            other.execute(sa.text("SELECT 1"))
            connection = other.connection.dbapi_connection
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    finally:
        ledger.close()


def test_neither_a_writer_nor_a_reader_that_reads_again_waits_for_readers(postgres_url: str) -> None:
    ledger = Ledger.open(postgres_url)
    inside, go_on = threading.Barrier(store._READERS + 1), threading.Event()
    again: list[int] = []

    def read() -> None:
        with ledger.read():
            inside.wait(60)
            with ledger.read() as tx:
                again.append(tx.execute(sa.text("SELECT 1")).scalar_one())
            go_on.wait(60)

    threads = [threading.Thread(target=read) for _ in range(store._READERS)]
    try:
        for thread in threads:
            thread.start()
        inside.wait(60)
        assert ledger._readers is not None
        assert not ledger._readers.acquire(blocking=False)
        with ledger.write_silently() as tx:
            assert tx.execute(sa.text("SELECT 1")).scalar_one() == 1
    finally:
        go_on.set()
        for thread in threads:
            thread.join(60)
        ledger.close()
    assert again == [1] * store._READERS
