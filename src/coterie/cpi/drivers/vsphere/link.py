"""The session with a vCenter: opened on first use, made anew when it has ended, shared by all threads.

`ask` is for questions, `change` for calls whose lost answer leaves something in doubt.
"""

from __future__ import annotations

import atexit
import ssl
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.properties import Settings
from coterie.cpi.drivers.vsphere.refusals import Refusal, failure

_ENDED = ("NotAuthenticated",)
_API = "vim.version.version13"  # vSphere 6.7 and later
_TIMEOUT_S = 120


class Link:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = threading.Lock()
        self._content: Any = None
        self._stub: Any = None
        self.session_key = ""
        self._session = 0  # how many were opened; tells who noticed an ended one first

    @property
    def content(self) -> Any:
        """The managers of this vCenter. Opens the session."""
        if self._content is None:
            self._open(self._session)
        return self._content

    @property
    def cookie(self) -> str:
        return str(self._stub.cookie or "") if self.content else ""

    def ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self._call(False, method, arguments, named)

    def change(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self._call(True, method, arguments, named)

    def reference(self, kind: Any, moid: str) -> Any:
        """A managed object by its id; nothing is asked."""
        return kind(moid, self._stub) if self.content else None

    def tls(self) -> ssl.SSLContext | None:
        if urlsplit(self._settings.url).scheme == "http":
            return None
        if self._settings.insecure:
            return ssl._create_unverified_context()  # noqa: S323 # the user's own word: properties.insecure
        pem = self._settings.ca_cert
        try:
            inline = bool(pem) and "-----BEGIN" in str(pem)
            return ssl.create_default_context(cadata=pem if inline else None, cafile=None if inline else pem)
        except (OSError, ssl.SSLError) as error:
            raise CpiError(
                "properties.ca_cert cannot be read", why=str(error), remedy="give a PEM text or file"
            ) from error

    def _call(
        self, changes: bool, method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        for again in (True, False):
            seen = self._session
            try:
                return method(*arguments, **named)
            except Exception as error:
                failed = failure(error, changes=changes)
                if again and isinstance(failed, Refusal) and failed.is_a(*_ENDED):
                    self._open(seen)  # refused before anything was done, so it may be repeated
                    continue
                raise failed from error
        raise AssertionError("two tries end above")

    def _open(self, seen: int) -> None:
        """Log in, unless another thread has done so since the session number `seen`."""
        with self._turn:
            if self._session != seen:
                return
            try:
                content = self._content or self._connected()
                self._stub.cookie = ""  # with the old one the login would be refused
                opened = content.sessionManager.Login(self._settings.user, self._settings.password)
            except CpiError:
                raise
            except Exception as error:
                raise failure(error, changes=False) from None  # the cause may hold the request, and so the password
            if self._content is None:
                _SESSIONS.append(content.sessionManager)
                weakref.finalize(self, self._stub.DropConnections).atexit = False
            self._content, self._session, self.session_key = content, self._session + 1, str(opened.key)

    def _connected(self) -> Any:
        where = urlsplit(self._settings.url)
        plain = where.scheme == "http"
        port = where.port or (80 if plain else 443)
        self._stub = sdk.SoapStubAdapter(
            host=where.hostname,
            port=-port if plain else port,
            path="/sdk",
            version=_API,
            sslContext=self.tls(),
            poolSize=32,
            httpConnectionTimeout=_TIMEOUT_S,
        )
        return sdk.vim.ServiceInstance("ServiceInstance", self._stub).RetrieveContent()


def _log_out() -> None:
    """When the process ends: vCenters take a limited number of idle sessions, and a CPI program is a process per call.

    Not when a driver is dropped, which only closes its connections: that may be in the middle of another's call.
    """
    for manager in _SESSIONS:
        with suppress(Exception):
            manager.Logout()


_SESSIONS: list[Any] = []
atexit.register(_log_out)
