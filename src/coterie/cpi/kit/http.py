"""HTTP to a cloud's API: one connection per thread and host, TLS, proxy, time-outs, retries of questions.

`Http.request` ends in one of three ways: an `Answer`, whatever its status; `NotTaken`, when no connection could be
opened, so that the request certainly did nothing; `AnswerLost`, when it was sent and perhaps taken, but no answer came.
`call_error` turns the two errors into errors of the contract. `ask_patiently` repeats a question, never a change.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from coterie.cpi.contract import CpiError, OutcomeUnknown, Unavailable
from coterie.slotted import dataclass, field

T = TypeVar("T")
Body = bytes | Iterable[bytes] | None
_FRESH_S = 5.0  # an idle connection older than this may have been closed by the other side without notice
_LONGEST_REST_S = 30.0
_REDIRECTS = (307, 308)
_REDIRECTS_OF_QUESTIONS = (301, 302)  # may turn another method into GET, so no change is sent again
_REDIRECT_LIMIT = 5
_PORTS = {"http": 80, "https": 443}


class NotTaken(Exception):
    """No connection could be opened: the cloud certainly did not take the request."""


class AnswerLost(Exception):
    """The request was sent and no answer came: the cloud perhaps took it."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """`ca_cert`: a PEM text, or the path of a file. `proxy_url` may hold a user and a password. `tunnel_plain`: ask the
    proxy for a tunnel for http:// too. `environment_proxy`: without a `proxy_url`, use that of HTTP_PROXY and friends.
    """

    connect_timeout: float = 10.0
    request_timeout: float = 60.0
    ca_cert: str | None = None
    insecure: bool = False
    proxy_url: str | None = field(default=None, repr=False)
    tunnel_plain: bool = False
    environment_proxy: bool = False
    follow_redirects: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` has lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty where it is none."""
        try:
            found = json.loads(self.body) if self.body else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def retry_after(self) -> float | None:
        """The seconds that the cloud asks to wait."""
        given = self.headers.get("retry-after", "")
        if given.isdecimal():
            return float(given)
        try:
            return max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0)
        except (ValueError, TypeError):
            return None


class Http:
    """Usable from any number of threads; opens nothing before the first request. `new_connection`: gives one that is
    not open yet, for a server behind a Unix socket or with a TLS of its own; then there is no proxy."""

    def __init__(
        self, options: HttpOptions, new_connection: Callable[[], http.client.HTTPConnection] | None = None
    ) -> None:
        self._options = options
        self._given_connection = new_connection
        self._own = threading.local()
        self._tls: ssl.SSLContext | None = None

    def request(self, method: str, url: str, headers: Mapping[str, str] | None = None, body: Body = None) -> Answer:
        """The answer, whatever its status. With `follow_redirects` a redirection is followed, but only to the same
        scheme, host and port, since the headers may hold credentials; and only where the request can be sent a second
        time as it was."""
        for _ in range(_REDIRECT_LIMIT if self._options.follow_redirects else 1):
            answer = self._send(method, urlsplit(url), headers or {}, body)
            target = urljoin(url, answer.headers.get("location", ""))
            if not _is_followed(answer.status, method, body) or _origin(target) != _origin(url):
                return answer
            url = target
        return answer

    def close(self) -> None:
        """Close the connections of this thread."""
        for key in list(self._connections()):
            self._drop(key)

    def _send(self, method: str, where: SplitResult, headers: Mapping[str, str], body: Body) -> Answer:
        proxy = self._proxy(where)
        key = (where.scheme, where.netloc)
        connection = self._connection(key, where, proxy)
        target = where._replace(scheme="", netloc="").geturl() or "/"
        if proxy and not self._tunnels(where):
            target, headers = where.geturl(), {**headers, **_proxy_headers(proxy)}
        try:
            with suppress(BrokenPipeError):  # the cloud may refuse a long body before it has it all, and say so
                connection.request(method, target, body, dict(headers))
            found = connection.getresponse()
            raw = found.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop(key)
            raise AnswerLost(_words(error)) from error
        self._connections()[key] = connection, time.monotonic()
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, raw)

    def _connection(
        self, key: tuple[str, str], where: SplitResult, proxy: SplitResult | None
    ) -> http.client.HTTPConnection:
        kept, used_at = self._connections().get(key, (None, 0.0))
        if kept is not None and time.monotonic() - used_at < _FRESH_S and _is_open(kept):
            return kept
        self._drop(key)
        made = self._given_connection() if self._given_connection else self._new_connection(where, proxy)
        try:
            made.connect()
        except (OSError, http.client.HTTPException) as error:
            made.close()
            raise NotTaken(_words(error)) from error
        made.sock.settimeout(self._options.request_timeout)
        self._connections()[key] = made, time.monotonic()
        return made

    def _new_connection(self, where: SplitResult, proxy: SplitResult | None) -> http.client.HTTPConnection:
        host, port = str(where.hostname), where.port or _PORTS[where.scheme]
        first = (str(proxy.hostname), proxy.port or _PORTS[proxy.scheme]) if proxy else (host, port)
        timeout = self._options.connect_timeout
        made: http.client.HTTPConnection
        if where.scheme == "https":
            made = http.client.HTTPSConnection(*first, timeout=timeout, context=self._tls_context())
        else:
            made = http.client.HTTPConnection(*first, timeout=timeout)
        if proxy and self._tunnels(where):
            made.set_tunnel(host, port, _proxy_headers(proxy))
        return made

    def _tunnels(self, where: SplitResult) -> bool:
        return where.scheme == "https" or self._options.tunnel_plain

    def _proxy(self, where: SplitResult) -> SplitResult | None:
        if self._options.proxy_url:
            return _read_proxy(self._options.proxy_url, "properties.proxy_url")
        if not self._options.environment_proxy:
            return None
        import urllib.request  # slow to import, and few clouds are behind a proxy of the environment

        known = urllib.request.getproxies()
        name = where.scheme if known.get(where.scheme) else "all"
        if not known.get(name) or urllib.request.proxy_bypass(where.netloc) or _is_within(where, known.get("no", "")):
            return None
        return _read_proxy(known[name], f"{name.upper()}_PROXY in the environment")

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._options.ca_cert, insecure=self._options.insecure)
        return self._tls

    def _connections(self) -> dict[tuple[str, str], tuple[http.client.HTTPConnection, float]]:
        if not hasattr(self._own, "kept"):
            self._own.kept = {}
        kept: dict[tuple[str, str], tuple[http.client.HTTPConnection, float]] = self._own.kept
        return kept

    def _drop(self, key: tuple[str, str]) -> None:
        connection, _ = self._connections().pop(key, (None, 0.0))
        if connection is not None:
            connection.close()


def tls_context(ca_cert: str | None, *, insecure: bool = False) -> ssl.SSLContext:
    """Which certificates are believed: those of this CA, or of the machine's; any if `insecure`, whatever the CA."""
    ca_cert = None if insecure else ca_cert
    try:
        if ca_cert and "-----BEGIN" in ca_cert:
            made = ssl.create_default_context(cadata=ca_cert)
        else:
            made = ssl.create_default_context(cafile=ca_cert or None)
    except (OSError, ssl.SSLError) as error:
        raise CpiError("properties.ca_cert cannot be read", why=str(error), remedy="give a PEM text or file") from error
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def call_error(
    error: Exception, *, what: str, cloud: str, changes: bool, remedy: str = "check the URL, the network and the proxy"
) -> CpiError:
    """`NotTaken`, `AnswerLost` or a library's own error in words of the contract. `changes`: whether the request could
    change something, so that a lost answer leaves its outcome unknown."""
    why = _words(error)
    if isinstance(error, NotTaken):
        return Unavailable(f"{cloud} cannot be reached to {what}", why=why, remedy=remedy)
    if not changes:
        return Unavailable(f"the answer to {what} was lost", why=why, remedy="repeat")
    return OutcomeUnknown(
        f"the answer to {what} was lost", why=why, remedy="look for what it may have made before repeating it"
    )


def ask_patiently(
    ask: Callable[[], T], *, retries: int, first_rest_s: float, rest_after: Callable[[Exception, float], float | None]
) -> T:
    """The answer to a question, repeated with longer and longer rests. `rest_after(error, usual)`: how long to rest
    after this error, e.g. what Retry-After says, or `usual`; None: the error is final."""
    for attempt in range(retries):
        try:
            return ask()
        except Exception as error:
            rest = rest_after(error, min(first_rest_s * 2**attempt, _LONGEST_REST_S))
            if rest is None:
                raise
            time.sleep(min(rest, _LONGEST_REST_S))
    return ask()


def _is_followed(status: int, method: str, body: Body) -> bool:
    """A body that is no bytes is used up by the first request."""
    if not isinstance(body, bytes | None):
        return False
    return status in _REDIRECTS or (status in _REDIRECTS_OF_QUESTIONS and method in ("GET", "HEAD"))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    where = urlsplit(url)
    return where.scheme, where.hostname, where.port or _PORTS.get(where.scheme)


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Whether an idle connection can be used: one that has something to read was closed by the other side."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _read_proxy(text: str, source: str) -> SplitResult:
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    if proxy.scheme == "http":
        return proxy
    raise CpiError(
        f"the proxy of {source} has the scheme {proxy.scheme}",
        remedy="give a proxy like http://user:password@host:port; it also serves https:// URLs",
    )


def _is_within(where: SplitResult, no_proxy: str) -> bool:
    """Whether the host is an address in one of the networks of NO_PROXY, like 10.0.0.0/8; names are known to
    `proxy_bypass`."""
    try:
        address = ipaddress.ip_address(where.hostname or "")
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        with suppress(ValueError):
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    user, password = unquote(proxy.username), unquote(proxy.password or "")
    return {"Proxy-Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
