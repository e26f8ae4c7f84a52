"""Creates and upgrades the schema through Alembic; refuses a newer one, unless it only added things."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa

from coterie.errors import LedgerTooNew
from coterie.ledger.file import HEAD as HEAD

_VERSION = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32)))
_FLOOR = sa.Table("schema_floor", sa.MetaData(), sa.Column("oldest", sa.Text()))
_LOCK = 0x636F7465  # any number that is the same in every release
_IDLE_MS = 120_000  # a busy machine may pause between two statements; an ordinary transaction has a few seconds only


def upgrade(engine: sa.Engine) -> None:
    """Bring the schema to HEAD. Cheap when it is there already; safe when many processes start at once."""
    if current(engine) == HEAD:
        return
    with engine.begin() as tx:
        if tx.dialect.name == "postgresql":
            tx.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_MS}")
            tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if not _is_usable_newer(tx):
            _run_migrations(tx)


def require_known(engine: sa.Engine) -> None:
    """Raises LedgerTooNew where `upgrade` would; changes nothing."""
    with engine.connect() as tx:
        _is_usable_newer(tx)


def _is_usable_newer(tx: sa.Connection) -> bool:
    """Whether a newer release wrote it and we may work on it: what it added does not disturb us."""
    found = _read_version(tx)
    if found is None or found in _known():
        return False
    if _floor(tx) in _known():
        return True
    raise LedgerTooNew(
        f"this database has schema {found}, which this release does not know",
        why=f"it was written by a newer release; the newest schema here is {HEAD}",
        remedy="start the newer release, or restore a backup made before the upgrade",
    )


def current(engine: sa.Engine) -> str | None:
    with engine.connect() as tx:
        return _read_version(tx)


def _read_version(tx: sa.Connection) -> str | None:
    if not sa.inspect(tx).has_table(_VERSION.name):
        return None
    return tx.execute(sa.select(_VERSION.c.version_num)).scalar()


def _floor(tx: sa.Connection) -> str | None:
    if not sa.inspect(tx).has_table(_FLOOR.name):
        return None
    return tx.execute(sa.select(_FLOOR.c.oldest)).scalar()


@cache
def _known() -> frozenset[str]:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(_folder()))
    return frozenset(script.revision for script in scripts.walk_revisions())


def _run_migrations(tx: sa.Connection) -> None:
    from alembic.command import upgrade as alembic_upgrade
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_folder()))
    config.attributes["connection"] = tx
    alembic_upgrade(config, "head")


def _folder() -> Path:
    return Path(__file__).parent / "migrations"
