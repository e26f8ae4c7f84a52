"""A real Incus cluster of three members on one machine: Debian's own daemon, each in namespaces of its own."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """Short, since the path of a socket may have 107 characters."""
    return Path(os.environ.get("COTERIE_INCUS", "/var/tmp/coterie-incus"))
