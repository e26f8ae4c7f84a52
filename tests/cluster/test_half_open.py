"""A conductor whose connections to the database are half-open comes back; one that stays cut off ends itself."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.fleet import LEASE_S, cluster, page, until
from tests.peers.postgres import Server
from tests.peers.tcp_proxy import proxy


def test_a_conductor_survives_half_open_connections_and_ends_when_it_is_cut_off(tmp_path: Path, server: Server) -> None:
    with (
        proxy(server.url) as way,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        cluster(tmp_path, server, ("east",), 1, NOTIFY_SOCKET=str(tmp_path / "systemd")) as here,
    ):
        systemd.bind(str(tmp_path / "systemd"))
        systemd.settimeout(1)
        told: set[bytes] = set()
        threading.Thread(target=_read, args=(systemd, told), daemon=True).start()
        here.database = way.url(server.url)
        victim = here.add_conductor("east", "victim")
        here.await_conductors(2)
        until(lambda: {b"READY=1", b"WATCHDOG=1"} <= told, "systemd is not told that it is ready and alive", 60)
        assert way.mute()
        time.sleep(1.5 * LEASE_S)
        # Either it is back before the others remove it, or they have removed it: then it ends, and is started again.
        until(lambda: not victim.alive or _is_ready(victim.port), "it hangs in the dead connection", 60)
        if not victim.alive:
            victim.start()
        here.await_conductors(2)
        way.refusing = True
        assert way.reset()
        assert victim.popen is not None
        assert victim.popen.wait(90) != 0
        assert "could send no heartbeat" in victim.log.read_text()


def _read(systemd: socket.socket, told: set[bytes]) -> None:
    """All the time: what does not fit into the socket's short queue is lost."""
    while systemd.fileno() >= 0:
        with suppress(OSError):
            told.add(systemd.recv(100))


def _is_ready(port: int) -> bool:
    try:
        return page(port, "/readyz")[0] == 200
    except OSError:
        return False
