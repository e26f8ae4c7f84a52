"""Set-up that one worker of a test run makes and the others read: each of four would else pay for it."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def once_per_run(folders: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """What `make` answers; it must be plain data, and files that it names must outlive the worker that made them."""
    folder = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    file = folder / f"{name}.pickle"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            made = file.with_suffix(".new")
            made.write_bytes(pickle.dumps(make()))
            made.rename(file)
    found: T = pickle.loads(file.read_bytes())
    return found
