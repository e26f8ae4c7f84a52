"""The datacenter never sees more calls at a time than `max_parallel_calls` allows, from all drivers and threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox import api

from .lab import Lab


def test_calls_at_a_time_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, {"max_parallel_calls": 2})
    lock, running, seen, once = threading.Lock(), [0], [0], api._once

    def counted(*arguments: Any) -> Any:
        with lock:
            running[0] += 1
            seen[0] = max(seen[0], running[0])
        try:
            time.sleep(0.002)
            return once(*arguments)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(api, "_once", counted)
    drivers = [lab.open() for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda number: drivers[number % 4].has_vm("none"), range(48)))
    assert seen[0] == 2
