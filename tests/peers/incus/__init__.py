"""A real Incus cluster of three members on one machine: Debian's own daemon, each in namespaces of its own."""

from __future__ import annotations

import os
from pathlib import Path


def folder(number: int = 0) -> Path:
    """Of this cluster of the machine. Short, since the path of a socket may have 107 characters."""
    return Path(os.environ.get("COTERIE_INCUS", "/var/tmp/coterie-incus") + (f"-{number}" if number else ""))


def own_number() -> int:
    """Each worker of a test run has a cluster of its own."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
