"""The issuer's public keys: fetched from the issuer only, cached, fetched again when a token names an unknown key.

Redirects are not followed, and answers are bounded: the sender of a token must not control what is fetched.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads
from coterie.errors import Unreachable, UsageError

log = logging.getLogger(__name__)
_KEEP_S = 600.0
_REST_S = 10.0  # between two fetches, however many unknown keys the tokens name
_SILENT_REST_S = 3.0  # the same while the issuer has never answered
_TIMEOUT_S = 5.0
_LARGEST = 1 << 20
_CHUNK = 1 << 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Jwks:
    def __init__(self, issuer: str, ca: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        require_safe(issuer)
        self._issuer = issuer.rstrip("/")
        self._clock = clock
        self._opener = _opener(ca)
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._unanswered = False  # fetched, and no keys came yet
        self._at = self._tried = -_KEEP_S

    def __call__(self, kid: str) -> KeySet:
        """The keys; fetched if they are old, or if `kid` is not among them (the issuer has a new key)."""
        present = self._keys
        if present is not None and self._clock() - self._at < _KEEP_S and _has(present, kid):
            return present
        # One thread waits for the issuer; tokens with unknown keys must not occupy the others. Only before the first
        # answer of a new process do they wait.
        if not self._lock.acquire(blocking=present is None and not self._unanswered):
            if present is not None and _has(present, kid):
                return present
            raise _silent(self._issuer)
        try:
            return self._current(kid)
        finally:
            self._lock.release()

    def _current(self, kid: str) -> KeySet:
        now = self._clock()
        fresh = self._keys is not None and now - self._at < _KEEP_S and _has(self._keys, kid)
        if not fresh and now - self._tried >= (_SILENT_REST_S if self._unanswered else _REST_S):
            self._fetch(now)
        if self._keys is None:
            raise _silent(self._issuer)
        return self._keys

    def _fetch(self, now: float) -> None:
        try:
            self._keys = KeySet.import_key_set(self._get(self._where()))
            self._at = now
        except (OSError, ValueError, KeyError, TypeError, AttributeError, JoseError, Mismatch) as error:
            # The cached keys may still be valid; a token signed with another one is refused.
            log.warning("cannot fetch the keys of %s: %s", self._issuer, type(error).__name__)
        self._unanswered = self._keys is None
        self._tried = self._clock()  # the pause begins when the fetch has ended

    def _where(self) -> str:
        found = str(self._get(f"{self._issuer}/.well-known/openid-configuration")["jwks_uri"])
        if _origin(found) != _origin(self._issuer):
            raise ValueError("the issuer's keys are on another host")
        return found

    def _get(self, url: str) -> Any:
        raw, until = bytearray(), time.monotonic() + _TIMEOUT_S
        with self._opener.open(urllib.request.Request(url), timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see require_safe
            while chunk := answer.read1(_CHUNK):
                raw += chunk
                if len(raw) > _LARGEST or time.monotonic() > until:
                    raise ValueError("the answer is too large or too slow")
        return loads(bytes(raw))


def require_safe(issuer: str) -> None:
    parts = urlsplit(issuer)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise UsageError(
        f"setting oidc_issuer: {issuer} cannot be trusted",
        why="its keys would travel unprotected",
        remedy="give an https:// URL; http:// works on this machine only",
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener(ca: Path | None) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=str(ca) if ca else None)
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _has(keys: KeySet, kid: str) -> bool:
    return any(key.kid == kid for key in keys.keys)


def _silent(issuer: str) -> Unreachable:
    return Unreachable(
        f"the issuer {issuer} does not give its keys",
        remedy="try again in a moment; an API token works meanwhile; see the log of the Director",
    )
