"""What one call is done with: the driver, the local ledger, who calls, and what the configuration says."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from coterie.bosh.config import Config
from coterie.bosh.overrides import Caller
from coterie.bosh.recording.local_ledger import Book
from coterie.cpi.contract import Cpi, Kind, Mark


def new_holder() -> str:
    """Names one call in leases; no two calls share one, not in one process either."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Desk:
    driver: Cpi
    book: Book
    config: Config
    who: Caller
    core: bool = False
    holder: str = field(default_factory=new_holder)

    @property
    def cloud(self) -> str:
        return self.config.cloud

    @property
    def director(self) -> str:
        return self.who.director_uuid

    def mark(self, intent: str) -> Mark:
        return Mark(self.director, intent)

    def claim_of(self, kind: Kind, intent: str, agent_id: str | None = None) -> str:
        """The key under which the work on this object is claimed; machines are claimed by agent, not by intent."""
        if kind == "vm" and agent_id:
            return f"vm/{self.cloud}/{self.director}/{agent_id}"
        return f"intent/{intent}"

    @contextmanager
    def holding(self, key: str) -> Iterator[None]:
        """Keep the claim on `key`, which was taken already, alive until the block ends; then give it up."""
        from coterie.bosh.recording.lease import renewed
        from coterie.ledger.work import leases

        ledger, lease_s = self.book.ledger, self.book.lease_s

        def renew() -> None:
            with ledger.write() as tx:
                leases.renew(tx, key, self.holder, lease_s)

        try:
            with renewed(lease_s, renew):
                yield
        finally:
            with ledger.write() as tx:
                leases.release(tx, key, self.holder)
