"""Keeps a lease alive while its work lasts; a process that dies stops renewing, and that is how others know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coterie.ledger.errors import DatabaseError


@contextmanager
def renewed(lease_s: float, renew: Callable[[], None]) -> Iterator[None]:
    """Call `renew` three times per lease until the block ends."""
    done = threading.Event()

    def keep() -> None:
        while not done.wait(lease_s / 3):
            try:
                renew()
            except DatabaseError:
                continue  # a database that is away for a moment: the next round may still be in time

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
