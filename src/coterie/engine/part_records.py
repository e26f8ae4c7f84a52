"""The records of parts in the ledger, as a driver uses them: each change is a transaction of its own, since it must be
committed before the next request to the cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.cpi.contract import Kind, Mark, Part
from coterie.ledger.rows import parts

if TYPE_CHECKING:
    from coterie.ledger.file import FileLedger
    from coterie.ledger.store import Ledger


class LedgerPartRecords:
    """`ledger`: opened by the first part, since most calls have none."""

    def __init__(self, ledger: Callable[[], Ledger | FileLedger], cloud: str) -> None:
        self._ledger = ledger
        self._cloud = cloud

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        with self._ledger().write_silently() as tx:
            parts.intend(tx, self._cloud, mark.intent, kind, name)

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        with self._ledger().write_silently() as tx:
            parts.record(tx, self._cloud, mark.intent, kind, name, cid)

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        with self._ledger().write_silently() as tx:
            parts.withdraw(tx, mark.intent, kind, name)

    def list_of(self, mark: Mark) -> list[Part]:
        with self._ledger().read() as tx:
            return parts.list_of(tx, [mark.intent]).get(mark.intent, [])
