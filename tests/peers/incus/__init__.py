"""A real Incus cluster of three members on one machine: Debian's own daemon, each in namespaces of its own. Or one of
LXD, where `COTERIE_LXD` names the folder of its build."""

from __future__ import annotations

import os


def own_number() -> int:
    """Each worker of a test run has a cluster of its own."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
