"""A process that is paused while it writes many rows: the database ends its transaction, and the rows are free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.cluster.fleet import until

_WRITER = """
import os, signal, sys
import psycopg
import sqlalchemy as sa
from psycopg.adapt import Dumper
from coterie.ledger.store import Ledger

class Stops(str): pass

class Pause(Dumper):
    def dump(self, value):
        os.kill(os.getpid(), signal.SIGSTOP)
        return b"late"

psycopg.adapters.register_dumper(Stops, Pause)
with Ledger.open(sys.argv[1]).write() as tx:
    rows = [{"k": 1, "v": "soon"}, {"k": 2, "v": Stops()}]
    tx.execute(sa.text("UPDATE probe SET v = :v WHERE k = :k"), rows)
"""


def test_rows_of_a_process_that_was_paused_between_two_of_them_are_soon_free(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as operator:
        operator.execute("CREATE TABLE probe (k int primary key, v text)")
        operator.execute("INSERT INTO probe VALUES (1, 'first'), (2, 'first')")
        operator.execute("SET lock_timeout = '100ms'")
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, postgres_url], stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: _stopped(writer.pid), "it is not paused", 60)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                operator.execute("UPDATE probe SET v = 'ours' WHERE k = 1")
            until(lambda: _free(operator), "its rows stay locked as long as it is paused", 60)
        finally:
            os.kill(writer.pid, signal.SIGCONT)
        told = writer.communicate(timeout=60)[1]
        assert writer.returncode != 0
        assert "idle-in-transaction" in told or "terminat" in told
        found = operator.execute("SELECT v FROM probe ORDER BY k").fetchall()
    assert found == [("ours",), ("first",)]


def _stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _free(operator: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        operator.execute("UPDATE probe SET v = 'ours' WHERE k = 1")
    except psycopg.errors.LockNotAvailable:
        return False
    return True
