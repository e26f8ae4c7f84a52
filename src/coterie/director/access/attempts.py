"""Failed log-ins per address: after too many within a minute the next are refused unchecked. Memory is bounded."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from coterie.errors import TooManyAttempts

_MOST = 10
_WINDOW_S = 60.0
_ADDRESSES = 4096
_KNOWN = 1024


class Attempts:
    """Used by the event loop only. Credentials that were right a moment ago still pass: an attacker at the same
    address must not lock other users out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def check(self, peer: str, credential: str) -> None:
        failures = self._recent_failures(_network(peer))
        if len(failures) < _MOST or _digest(credential) in self._known:
            return
        wait = max(1, round(failures[0] + _WINDOW_S - self._clock()))
        refusal = TooManyAttempts(
            "too many failed log-ins from this address",
            why=f"{len(failures)} within {_WINDOW_S:.0f} s",
            remedy=f"wait {wait} s, then come with a valid token",
        )
        refusal.details["retry_after"] = wait
        raise refusal

    def count_failure(self, peer: str, credential: str) -> None:
        network = _network(peer)
        self._known.pop(_digest(credential), None)
        self._failures[network] = [*self._recent_failures(network), self._clock()][-_MOST:]
        self._failures.move_to_end(network)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)

    def remember_success(self, credential: str) -> None:
        digest = _digest(credential)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    def _recent_failures(self, network: str) -> list[float]:
        since = self._clock() - _WINDOW_S
        return [at for at in self._failures.get(network, ()) if at > since]


def _network(peer: str) -> str:
    """The address; for IPv6 its /64 network, since one host has 2^64 addresses."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
