"""Stops what was started in a folder, and nothing else: first what uses the broker and the database, then those."""

from __future__ import annotations

import shutil
import time

from tests.peers.openstack.layout import Layout
from tests.peers.openstack.processes import Processes

_LAST = {"rabbitmq": 30, "epmd": 5, "mariadb": 60}  # seconds that each may take
_GRACE_S = 15


def bring_down(layout: Layout, purge: bool = False) -> None:
    began = time.time()
    processes = Processes(layout)
    stopped = processes.stop([name for name in processes.names() if name not in _LAST], _GRACE_S)
    stopped += sum(processes.stop([name], grace_s) for name, grace_s in _LAST.items())
    print(f"stopped {stopped} processes of {layout.state} in {time.time() - began:.1f} s")
    if purge and layout.state.is_dir():
        shutil.rmtree(layout.state)
        print(f"removed {layout.state}")
