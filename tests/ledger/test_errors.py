"""Which errors of the database are an outage, after which the same is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.ledger.errors import is_outage
from coterie.ledger.store import Ledger
from tests.faults.outages import INJECTED


@pytest.mark.parametrize("strike", INJECTED, ids=lambda strike: strike.name)
def test_a_database_that_does_not_answer_is_an_outage(strike: object, ledger: Ledger) -> None:
    with pytest.raises(sa.exc.SQLAlchemyError) as raised, ledger.read() as tx:
        strike.act(tx)  # type: ignore[attr-defined]  # a Strike
    assert is_outage(raised.value)


def test_a_statement_that_can_never_work_is_none(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.DBAPIError) as raised, ledger.read() as tx:
        tx.exec_driver_sql("SELECT no_such_column FROM steps")
    assert not is_outage(raised.value)


def test_a_locked_file_is_an_outage(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}", connect_args={"timeout": 0, "isolation_level": None})
    with engine.connect() as first, engine.connect() as second:
        first.exec_driver_sql("BEGIN EXCLUSIVE")
        with pytest.raises(sa.exc.OperationalError) as raised:
            second.exec_driver_sql("BEGIN EXCLUSIVE")
    assert is_outage(raised.value)


def test_a_postgresql_standby_is_an_outage_and_its_connection_is_dropped(ledger: Ledger) -> None:
    if ledger.dialect != "postgresql":
        pytest.skip("SQLite has no standby")
    with pytest.raises(sa.exc.InternalError) as raised, ledger.write() as tx:
        tx.exec_driver_sql("SET TRANSACTION READ ONLY")
        tx.exec_driver_sql("CREATE TABLE never (id int)")
    assert is_outage(raised.value)
    assert raised.value.connection_invalidated
