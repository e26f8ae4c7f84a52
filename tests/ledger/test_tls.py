"""A ledger over TLS, with the options in its URL: every connection, that of the wake-ups too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psycopg
import pytest

from coterie.conductor.startup import connect
from coterie.errors import Unreachable
from tests.peers import postgres
from tests.peers.certificates import Authority


def test_all_connections_are_checked_and_encrypted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with postgres.running() as server:
        furnish(server, authority)
        ledger = connect(f"{server.url}?sslmode=verify-full&sslrootcert={authority.ca}")
        try:
            with ledger.read():
                while len(found := _encrypted(server.url)) < 2:
                    pass  # the one in hand, and that of the wake-ups, which comes in its own time
                assert all(found)
        finally:
            ledger.close()
        with pytest.raises(Unreachable, match="SSL error"):
            connect(f"{server.url}?sslmode=verify-full&sslrootcert={Authority(other).ca}")


def furnish(server: postgres.Server, authority: Authority) -> None:
    folder = Path(_setting(server.url, "data_directory"))
    for made, name in zip(authority.issue("server"), ("server.crt", "server.key"), strict=True):
        shutil.copy(made, folder / name)
        if os.geteuid() == 0:
            shutil.chown(folder / name, "postgres", "postgres")
        (folder / name).chmod(0o600)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET ssl = on")
        connection.execute("SELECT pg_reload_conf()")
    while _setting(server.url, "ssl") != "on":
        pass  # the server reads its configuration in its own time; the test's timeout bounds it


def _setting(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SHOW {name}").fetchone()
    assert row is not None
    return str(row[0])


def _encrypted(url: str) -> list[bool]:
    with psycopg.connect(f"{url}?sslmode=disable") as connection:
        rows = connection.execute(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
            " WHERE backend_type = 'client backend' AND pid != pg_backend_pid()"
        ).fetchall()
    return [bool(row[0]) for row in rows]
