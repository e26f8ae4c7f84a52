"""Messages to systemd, where it runs this process: ready, alive, stopping. Elsewhere they go nowhere."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(message: str) -> None:
    """One message of sd_notify(3), such as READY=1 or WATCHDOG=1."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # a name without a file
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.setblocking(False)  # a message that cannot be sent now is repeated soon
        systemd.sendto(message.encode(), address)
