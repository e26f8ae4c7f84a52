"""Failed log-ins per address: after too many within a minute the next are refused unread. Memory is bounded."""

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
    """Touched by the event loop only. Credentials that were right a moment ago still pass: an attacker behind the
    same address must not lock out those who work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def check(self, peer: str, credential: str) -> None:
        failures = self._recent(_place(peer))
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

    def failed(self, peer: str, credential: str) -> None:
        place = _place(peer)
        self._known.pop(_digest(credential), None)
        self._failures[place] = [*self._recent(place), self._clock()][-_MOST:]
        self._failures.move_to_end(place)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)

    def succeeded(self, credential: str) -> None:
        digest = _digest(credential)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    def _recent(self, place: str) -> list[float]:
        since = self._clock() - _WINDOW_S
        return [at for at in self._failures.get(place, ()) if at > since]


def _place(peer: str) -> str:
    """Of IPv6 the network counts: one host has 2^64 addresses."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
