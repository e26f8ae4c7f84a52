"""Set-up that one worker of a test run makes and the others read: each of four would else pay for it."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def once_per_run(folders: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """What `make` answers; it must be plain data, and files that it names must outlive the worker that made them."""
    folder = _folder(folders)
    file = folder / f"{name}.pickle"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            made = file.with_suffix(".new")
            made.write_bytes(pickle.dumps(make()))
            made.rename(file)
    found: T = pickle.loads(file.read_bytes())
    return found


def made_in_this_run(folders: pytest.TempPathFactory, name: str) -> Any:
    """What `once_per_run` made under this name; None if no test needed it."""
    file = _folder(folders) / f"{name}.pickle"
    return pickle.loads(file.read_bytes()) if file.exists() else None


def _folder(folders: pytest.TempPathFactory) -> Path:
    folder = folders.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
