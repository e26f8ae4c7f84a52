"""`max_parallel_calls` across the workers of a conductor, seen from inside the cloud."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.sandbox.store import Store
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import group, manifest, site


class CountingStore:
    """Counts the transactions of the datacenter that are open at the same time."""

    def __init__(self) -> None:
        self.running = self.highest = 0
        self._lock = threading.Lock()

    @contextmanager
    def count(self) -> Iterator[None]:
        with self._lock:
            self.running += 1
            self.highest = max(self.highest, self.running)
        time.sleep(0.005)
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1


@pytest.mark.parametrize("most", [1, 2])
def test_the_workers_of_a_conductor_share_the_limit(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, ledger = CountingStore(), sqlite_ledger(tmp_path / "l.db")
    writing = Store.writing

    @contextmanager
    def counting(store: Store, *arguments: Any, **named: Any) -> Iterator[Any]:
        with cloud.count(), writing(store, *arguments, **named) as db:
            yield db

    with site(ledger, tmp_path) as here:
        here.conductor.drain(5.0)
        here.conductor = Conductor(ledger, "c", state_folder=tmp_path, workers=6)
        here.conductor.start()
        here.config = here.config.replace("settle_s: 0.1", f"settle_s: 0.1, max_parallel_calls: {most}")
        monkeypatch.setattr(Store, "writing", counting)
        here.deploy(manifest(group("a", 8)).replace("canaries: 1", "canaries: 0"))
    ledger.close()
    assert 1 <= cloud.highest <= most
