"""Whether something answers."""

from __future__ import annotations

import socket

from tests.peers.openstack import rest


def listening(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 2):
        return True


def answers(url: str) -> bool:
    return rest.ask("GET", url)[0] in (200, 300)
