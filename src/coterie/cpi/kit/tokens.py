"""Bearer tokens, kept for all drivers of the process as long as they count."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

from coterie.cpi.contract import AuthenticationFailed

_RENEW_S = 300.0
_TRIES = 8  # for a token that is not the refused one


class Tokens:
    """By a key of the caller's, which says who signs in where."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[str, float]] = {}  # token, and from when on another is asked for
        self._asking: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, ask: Callable[[], tuple[str, float]], refused: str | None = None) -> str:
        """A valid token, and never the one that was refused. `ask` gives another one, and when it ends. A login that
        hangs keeps no other waiting, and one for another token none whose token counts."""
        token, renewed_at = self._known.get(key, ("", 0.0))
        if token != refused and renewed_at >= time.time():
            return token
        with self._asking.setdefault(key, threading.Lock()):
            token, renewed_at = self._known.get(key, ("", 0.0))
            if token == refused or renewed_at < time.time():
                token, renewed_at = self._known[key] = _ask_other(ask, refused)
            return token


def _ask_other(ask: Callable[[], tuple[str, float]], refused: str | None) -> tuple[str, float]:
    """With the time to ask again: short-lived ones are used for half of their life."""
    for _ in range(_TRIES):
        token, ends = ask()
        if token != refused:
            return token, ends - min(_RENEW_S, (ends - time.time()) / 2)
        time.sleep(0.25)  # two that are signed within a second are the same
    raise AuthenticationFailed(
        "the cloud refuses its own token, and gives no other", remedy="check the credentials and the clock"
    )
