"""Migrations: they lead where `tables` says, old databases follow, newer ones are refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade as alembic_upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import coterie.ledger
from coterie.errors import LedgerTooNew
from coterie.ids import Ids
from coterie.ledger import identity, schema
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata

SCRIPTS = Path(coterie.ledger.__file__).parent / "migrations"


def engine(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def upgrade_to(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine(url).begin() as tx:
        config.attributes["connection"] = tx
        alembic_upgrade(config, revision)


def test_migrations_lead_to_exactly_the_declared_tables(database_url: str) -> None:
    Ledger.open(database_url).close()
    with engine(database_url).connect() as tx:
        assert compare_metadata(MigrationContext.configure(tx), metadata) == []


def test_head_is_the_newest_script() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == schema.HEAD


def test_an_old_database_is_upgraded_and_keeps_its_rows(database_url: str) -> None:
    upgrade_to(database_url, "0001")
    old = engine(database_url)
    with old.begin() as tx:
        assert not sa.inspect(tx).has_table("replies")
        tx.execute(sa.text("INSERT INTO directors (uuid, name, created_at) VALUES ('u', 'kept', 1)"))
    ledger = Ledger.open(database_url)
    with ledger.read() as tx:
        assert identity.director(tx).name == "kept"
        assert sa.inspect(tx).has_table("replies")
    ledger.close()


def test_a_newer_database_is_refused_and_left_alone(database_url: str) -> None:
    Ledger.open(database_url).close()
    with engine(database_url).begin() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerTooNew, match="schema 9999") as refusal:
        Ledger.open(database_url)
    assert "newer release" in refusal.value.remedy
    with engine(database_url).connect() as tx:
        assert tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "9999"


def test_many_processes_may_open_a_new_database_at_once(database_url: str) -> None:
    failures: list[BaseException] = []
    names: set[str] = set()

    def open_it() -> None:
        try:
            ledger = Ledger.open(database_url)
            names.add(identity.ensure_director(ledger, "d", Ids()).uuid)
            ledger.close()
        except BaseException as error:  # told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(names) == 1
