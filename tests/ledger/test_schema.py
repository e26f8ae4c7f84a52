"""Migrations: they lead where `tables` says, old databases follow, newer ones are refused."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade as alembic_upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import coterie.ledger
from coterie.errors import LedgerTooNew, LedgerUnusable
from coterie.ids import Ids
from coterie.ledger import schema, store
from coterie.ledger.rows import identity, nodes
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata
from coterie.ledger.work import conductors
from tests.ledger import shortcuts
from tests.ledger.views import rows

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
        tx.execute(sa.text("UPDATE schema_floor SET oldest = '9999'"))  # it took something away
    with pytest.raises(LedgerTooNew, match="schema 9999") as refusal:
        Ledger.open(database_url)
    assert "newer release" in refusal.value.remedy
    with engine(database_url).connect() as tx:
        assert tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "9999"


def test_a_look_at_it_tells_the_same_and_upgrades_nothing(database_url: str) -> None:
    upgrade_to(database_url, "0001")
    Ledger.examine(database_url)
    with engine(database_url).begin() as tx:
        assert tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "0001"
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerTooNew, match="schema 9999"):
        Ledger.examine(database_url)


def test_the_error_about_a_damaged_file_has_its_name_and_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(b"this is no database" * 1000)
    for look in (Ledger.open, Ledger.examine):
        with pytest.raises(LedgerUnusable, match=r"ledger\.db is damaged") as told:
            look(f"sqlite:///{file}")
        assert told.value.why == "file is not a database"
        assert "backup" in told.value.remedy
    with pytest.raises(LedgerUnusable, match="cannot be opened"):
        Ledger.open(f"sqlite:///{tmp_path}/no/such/folder.db")


def test_a_newer_database_that_only_added_things_is_worked_on(database_url: str) -> None:
    """As during a rolling upgrade: the new release has migrated, and a conductor of this one starts again."""
    Ledger.open(database_url).close()
    with engine(database_url).begin() as tx:
        tx.execute(sa.text("ALTER TABLE nodes ADD COLUMN colour TEXT DEFAULT 'grey' NOT NULL"))
        tx.execute(sa.text("CREATE TABLE novelties (id INTEGER PRIMARY KEY)"))
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    ledger = Ledger.open(database_url)
    rows.node(ledger, "broker", 0)
    with ledger.write() as tx:
        conductors.register(tx, "old", "1", group="", drivers=["sandbox"], release="0.1")
        assert nodes.get(tx, "uuid-kafka-broker-0") is not None
        assert conductors.beat(tx, "old", "1")
    ledger.close()
    with engine(database_url).connect() as tx:
        assert tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "9999"
        assert tx.execute(sa.text("SELECT colour FROM nodes")).scalar() == "grey"


def test_migrations_only_add(database_url: str) -> None:
    """Nothing that an older release reads goes away or changes, and nothing new has to be written by it."""
    revisions = sorted(script.revision for script in ScriptDirectory(str(SCRIPTS)).walk_revisions())
    before: dict[str, dict[str, tuple[str, bool]]] = {}
    for revision in revisions:
        upgrade_to(database_url, revision)
        after = columns(database_url)
        for table, known in before.items():
            assert known.items() <= {name: kind for name, (kind, _) in after[table].items()}.items(), revision
            needed = [name for name, (_, free) in after[table].items() if name not in known and not free]
            assert needed == [], f"{revision}: a release that does not know them cannot write rows of {table}"
        before = {table: {name: kind for name, (kind, _) in found.items()} for table, found in after.items()}


def columns(url: str) -> dict[str, dict[str, tuple[tuple[str, bool], bool]]]:
    """Tables and their columns: (type, nullable), and whether a row can be written without it."""
    with engine(url).connect() as tx:
        inspector = sa.inspect(tx)
        return {
            table: {
                one["name"]: ((str(one["type"]), one["nullable"]), one["nullable"] or one["default"] is not None)
                for one in inspector.get_columns(table)
            }
            for table in inspector.get_table_names()
        }


def test_a_slow_migration_is_not_cut_off(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit for idle transactions is meant for steps: it would end an upgrade on a busy machine."""
    monkeypatch.setattr(store, "_SESSION", "-c idle_in_transaction_session_timeout=200")
    migrate = schema._run_migrations

    def slowly(tx: sa.Connection) -> None:
        time.sleep(1.0)
        migrate(tx)

    monkeypatch.setattr(schema, "_run_migrations", slowly)
    Ledger.open(postgres_url).close()
    assert schema.current(engine(postgres_url)) == schema.HEAD


def test_many_processes_may_open_a_new_database_at_once(database_url: str) -> None:
    failures: list[BaseException] = []
    names: set[str] = set()

    def open_it() -> None:
        try:
            ledger = Ledger.open(database_url)
            names.add(identity.ensure_director(ledger, "d", Ids()).uuid)
            ledger.close()
        except BaseException as error:  # passed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(names) == 1


def test_a_commit_outlives_a_power_cut(tmp_path: Path) -> None:
    """Tests do without it, see `tests.ledger.shortcuts`."""
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        shortcuts.tune_sqlite(connection, None)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
