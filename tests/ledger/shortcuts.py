"""What every test would pay for again: SQL is compiled once in a process, and SQLite does not wait for the disk.

A killed process loses nothing by the latter; only a machine that loses its power would.
"""

from __future__ import annotations

from typing import Any

from coterie.ledger import store

_IDLE_IN_TRANSACTION_MS = 60_000
tune_sqlite = store._tune_sqlite


def install() -> None:
    """For the ledgers that this process opens from now on."""
    connect, compiled = store._connect, _Compiled()

    def connect_and_share(url: str) -> store.Ledger:
        ledger = connect(url)
        ledger._reader._compiled_cache = ledger._writer._compiled_cache = compiled  # type: ignore[assignment]
        return ledger

    def tune(connection: Any, record: Any) -> None:
        tune_sqlite(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    store._connect, store._tune_sqlite = connect_and_share, tune


def be_patient() -> None:
    """With a transaction whose process gets no time on a busy machine; not for processes that are paused on purpose."""
    store._SESSION = store._SESSION.replace(f"={store._IDLE_IN_TRANSACTION_MS} ", f"={_IDLE_IN_TRANSACTION_MS} ")


class _Compiled(dict[Any, Any]):
    """Statements by the name of their dialect: each engine has a dialect object of its own."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), value)
