"""The health check that the conductor runs against a node: none, tcp or http."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any

from coterie.engine.compute_slot import TURN


def problem(health: Mapping[str, Any] | None, address: str | None) -> str | None:
    """What is wrong, in words, or None when the check passes."""
    if not health or health["kind"] == "none":
        return None
    if address is None:
        return "it has no address to check"
    TURN.give_up()
    try:
        if health["kind"] == "http":
            return _http(health, address)
        socket.create_connection((address, health["port"]), timeout=health["timeout_s"]).close()
        return None
    except OSError as error:
        return f"{health['kind']} check of {address} port {health['port']}: {error.strerror or error}"
    except http.client.HTTPException as error:
        return f"http check of {address} port {health['port']}: {type(error).__name__}"


def _http(health: Mapping[str, Any], address: str) -> str | None:
    connection = http.client.HTTPConnection(address, health["port"], timeout=health["timeout_s"])
    try:
        connection.request("GET", health["path"])
        status = connection.getresponse().status
    finally:
        connection.close()
    if status == health["expect"]:
        return None
    return f"http check of {address} port {health['port']}: answered {status}, not {health['expect']}"
