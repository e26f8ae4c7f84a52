"""Ports for servers that a test starts in a moment, or again later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

# Below those that Linux gives to clients: any connection of another test could take one of these meanwhile.
_PORTS = range(10_000, 32_000)


def free_port() -> int:
    chance = random.SystemRandom()  # tests that seed the common one would all choose the same
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
