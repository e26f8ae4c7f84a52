"""What a database may refuse, under names of the ledger: no other package imports the client library for it."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

DatabaseError = sa.exc.SQLAlchemyError  # any failure of the database or of its client library
DatabaseRefusal = sa.exc.DBAPIError  # the database, or the way to it, failed
Unavailable = sa.exc.OperationalError  # no connection, or the database cannot do it now
KeyTaken = sa.exc.IntegrityError  # a row with this key is there already
NotPermitted = sa.exc.ProgrammingError  # this database role lacks the right
BadUrl = sa.exc.ArgumentError

_READ_ONLY = "25006"  # read_only_sql_transaction


def is_outage(error: BaseException) -> bool:
    """Whether the database did not answer (restarted, unreachable, cut off) or was a standby: the same can be tried
    again."""
    if is_standby(error):
        return True
    if isinstance(error, sa.exc.TimeoutError | sa.exc.OperationalError | sa.exc.InterfaceError):
        return not _is_bad_sql(error)
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def is_standby(error: BaseException) -> bool:
    """PostgreSQL takes no writes here: after a fail-over a connection may lead to the former primary."""
    return getattr(getattr(error, "orig", error), "sqlstate", None) == _READ_ONLY


def _is_bad_sql(error: sa.exc.SQLAlchemyError) -> bool:
    """SQLite reports a statement that can never work (no such column) as an OperationalError too."""
    return getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def reason(error: BaseException) -> str:
    """The first line of the database's own message; it may name hosts and users, never values of rows."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
