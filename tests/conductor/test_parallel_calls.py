"""`max_parallel_calls` across the workers of a conductor, seen from inside the cloud."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.sandbox import api, faults
from coterie.sandbox.datacenter import open_datacenter
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import group, manifest, site

_PATIENCE_S = 3.0


class CrowdedCloud:
    """Keeps calls inside until one more than allowed has come, or has not come for long enough."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._inside = 0
        self._seen_enough = False
        self.highest = 0

    def enter(self) -> None:
        with self._changed:
            self._inside += 1
            self.highest = max(self.highest, self._inside)
            self._changed.notify_all()
            one_more = self._changed.wait_for(lambda: self._seen_enough or self._inside > self._most, _PATIENCE_S)
            self._seen_enough |= one_more or self._inside == self._most
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1


@pytest.mark.parametrize("most", [1, 2])
def test_the_workers_of_a_conductor_share_the_limit(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, ledger = CrowdedCloud(most), sqlite_ledger(tmp_path / "l.db")
    run = api._run_with_faults

    def run_counted(account: Any, method: str, *rest: Any) -> Any:
        if method != "create_vm":
            return run(account, method, *rest)
        cloud.enter()
        try:
            return run(account, method, *rest)
        finally:
            cloud.leave()

    with site(ledger, tmp_path) as here:
        here.conductor.drain(5.0)
        here.conductor = Conductor(ledger, "c", state_folder=tmp_path, workers=6)
        here.conductor.start()
        here.config = here.config.replace("settle_s: 0.1", f"settle_s: 0.1, max_parallel_calls: {most}")
        here.cpi().check()
        faults.add(open_datacenter(tmp_path / "sandbox.db").store, "create_vm", "latency", ms=1)
        monkeypatch.setattr(api, "_run_with_faults", run_counted)
        here.deploy(manifest(group("a", 8)).replace("canaries: 1", "canaries: 0"))
    ledger.close()
    assert cloud.highest == most
