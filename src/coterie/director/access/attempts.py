"""Failed log-ins per address and per token: after too many within a minute the next are refused unchecked. Memory is
bounded. Behind trusted proxies the address is the one that they forward."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence

from coterie.director.access.tokens import token_id
from coterie.errors import TooManyAttempts

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MOST = 10
_WINDOW_S = 60.0
_ADDRESSES = 4096
_KNOWN = 1024


class Attempts:
    """Used by the event loop only. An attacker must not lock out other users at the same address: credentials that were
    right a moment ago still pass, and a token with a valid id has a limit of its own there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def is_over(self, peer: str, credential: str) -> bool:
        """Whether this address, or this token, had too many failures, and the credential is not known to be right."""
        if _digest(credential) in self._known:
            return False
        return any(len(self._recent_failures(key)) >= _MOST for key in (_network(peer), _token_key(peer, credential)))

    def check(self, peer: str, credential: str, valid_ids: Container[str] = ()) -> None:
        """Refuse what is over the limit. `valid_ids`: of tokens, which count by themselves, not by their address."""
        if not self.is_over(peer, credential):
            return
        failures = self._recent_failures(_token_key(peer, credential))
        if token_id(credential) not in valid_ids:
            failures = max(failures, self._recent_failures(_network(peer)), key=len)
        if len(failures) < _MOST:
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
        self._known.pop(_digest(credential), None)
        for key in filter(None, (_network(peer), _token_key(peer, credential))):
            self._failures[key] = [*self._recent_failures(key), self._clock()][-_MOST:]
            self._failures.move_to_end(key)
            if len(self._failures) > _ADDRESSES:
                self._failures.popitem(last=False)

    def remember_success(self, credential: str) -> None:
        digest = _digest(credential)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    def _recent_failures(self, key: str) -> list[float]:
        since = self._clock() - _WINDOW_S
        return [at for at in self._failures.get(key, ()) if at > since]


def client_address(peer: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """The address of the client: `peer`, or if that is a trusted proxy, the last one in `forwarded` that is none."""
    for found in [peer, *reversed([one.strip() for one in forwarded.split(",")])]:
        try:
            address = ipaddress.ip_address(found.partition("%")[0])
        except ValueError:
            return peer  # no address: then what stands before it cannot be trusted either
        if not any(address in network for network in trusted):
            return found
        peer = found
    return peer


def _token_key(peer: str, credential: str) -> str:
    # With the address, so that a token cannot be locked out from elsewhere by its id alone.
    found = token_id(credential)
    return f"{_network(peer)} {found}" if found else ""


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
