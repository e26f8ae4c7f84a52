"""Calls to Incus's REST API over a Unix socket or TLS: one attempt for whatever changes something, repeats for
questions, operations waited for, and the meaning of each refusal by its status. Texts of errors decide nothing."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from coterie.clock import running_on
from coterie.cpi import contract
from coterie.cpi.contract import AuthenticationFailed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.drivers.incus.properties import SOCKET, Settings
from coterie.cpi.kit.calls import ClassifiedRefusal
from coterie.cpi.kit.http import Answer, AnswerLost, Body, Http, HttpOptions, NotTaken, ask_patiently, call_error
from coterie.cpi.kit.local_credentials import require_source
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Overdue

Row = dict[str, Any]
T = TypeVar("T")
_REACH = "check properties.socket or url, and that the Incus daemon runs there"
_MISSING, _STALE, _BUSY, _THROTTLED, _BROKEN = 404, 412, 503, 429, 500
_WAIT_S = 10
_TRIES = 20  # changes of one object that others change at the same time
_KINDS: Mapping[int, tuple[type[CpiError], str]] = {
    400: (CpiError, "correct what the message names, then repeat"),
    401: (AuthenticationFailed, "have Incus trust properties.client_cert, or give a trust_token"),
    403: (contract.PrivilegeMissing, "trust the certificate for this project, or let this user use the socket"),
    _THROTTLED: (Throttled, "repeat later"),
    _BUSY: (Unavailable, "repeat when the member answers again"),
}


class Refusal(ClassifiedRefusal):
    """Incus's refusal by its status.
    `is_over`: an operation failed and has ended, so that nothing can come of it later."""

    def __init__(self, what: str, status: int, text: str, *, changes: bool, is_over: bool = False) -> None:
        self.http_status = status
        self.is_over = is_over
        broken = (OutcomeUnknown if changes and not is_over else Unavailable), "look at it in Incus, then repeat"
        self.kind, remedy = _KINDS.get(status, broken if status >= _BROKEN else (CpiError, "see the message"))
        if is_over:
            self.kind = CpiError
        super().__init__(f"Incus refused to {what} ({status})", why=text, remedy=remedy, retryable=self.kind.retryable)

    @property
    def is_missing(self) -> bool:
        return self.http_status == _MISSING


class NotSent(CpiError):
    """The call was not made, since its turn came too late."""


def look_after(error: Refusal, look: Callable[[], T]) -> T:
    """What `look` finds after a refusal, which an earlier call may have caused; where it cannot look, all is open."""
    try:
        return look()
    except CpiError as trouble:
        why = f"{error.why}; whether it is there cannot be seen: {trouble}"
        raise OutcomeUnknown(error.what, why=why, remedy="look for it by its mark") from error


class Client:
    """Usable from any number of threads."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self._is_trusted = settings.trust_token is None
        self._tls: ssl.SSLContext | None = None
        options = HttpOptions(settings.connect_timeout, settings.request_timeout)
        self._http = Http(options, self._connect)

    def ask(self, what: str, path: str, **query: str) -> Any:
        """The answer's metadata; None where there is no such thing."""
        return self.read(what, path, **query)[0]

    def read(self, what: str, path: str, **query: str) -> tuple[Any, str]:
        """The same, and the etag for a change of it."""

        def look() -> tuple[Any, str]:
            answer = self._call(what, "GET", path, query, changes=False)
            return answer[0].get("metadata"), answer[1]

        try:
            return ask_patiently(look, retries=self.settings.retries, first_rest_s=0.2, rest_after=_rest_after)
        except Refusal as error:
            if error.is_missing:
                return None, ""
            raise

    def rows(self, what: str, path: str, wanted: Mapping[str, str] | None = None) -> list[Row]:
        """All rows whose fields are these; the filter is the server's."""
        clauses = " and ".join(f"{key} eq {value}" for key, value in (wanted or {}).items())
        found = self.ask(what, path, recursion="1", **({"filter": clauses} if clauses else {}))
        return list(found or ())

    def change(
        self, what: str, method: str, path: str, body: Any = None, etag: str = "", send_by: float = 0.0, **query: str
    ) -> tuple[Any, str]:
        """One attempt: the answer's metadata, and the id of the operation that goes on, or nothing. `send_by`: raises
        NotSent where the call has waited for its turn for longer."""
        headers = {"if-match": etag} if etag else {}
        answer, _ = self._call(what, method, path, query, body, headers, changes=True, send_by=send_by)
        return answer.get("metadata"), str(answer.get("operation") or "").partition("?")[0].rpartition("/")[2]

    def run(self, what: str, method: str, path: str, body: Any = None, etag: str = "", **query: str) -> Any:
        """One attempt, and the end of its operation. How one ended that Incus has forgotten, the caller has to see."""
        metadata, operation = self.change(what, method, path, body, etag, 0.0, **query)
        found = self.wait(what, operation) if operation else metadata
        if operation and found is None:
            raise Refusal(what, _BROKEN, "Incus has forgotten the operation, and how it ended", changes=True)
        return found

    def upload(self, what: str, path: str, body: Iterator[bytes], headers: Mapping[str, str]) -> None:
        """A body that is made piece by piece, and the end of its operation."""
        answer, _ = self._call(what, "POST", path, {}, body, headers, changes=True)
        self.wait(what, str(answer.get("operation") or "").partition("?")[0].rpartition("/")[2])

    def edit(self, what: str, path: str, change: Callable[[Row], bool], **query: str) -> Row | None:
        """Read, change and write until no other call wrote between. `change` answers whether there is something to
        write; it gets a fresh row each time. None: there is no such thing."""
        for _ in range(_TRIES):
            row, etag = self.read(what, path, **query)
            if row is None or not change(row):
                found: Row | None = row
                return found
            try:
                self.run(what, "PUT", path, row, etag, **query)
            except Refusal as error:
                if error.http_status != _STALE:
                    raise
                continue
            return dict(row)
        raise CpiError(f"others change it at the same time as this tried to {what}", remedy="repeat", retryable=True)

    def wait(self, what: str, operation: str) -> Any:
        """The end of an operation; raises Incus's reason if it failed. Incus forgets operations soon after their end:
        one that is forgotten has ended somehow, and only a look at its object tells. Then the answer is None."""
        rounds = max(1, round(self.settings.state_timeout / _WAIT_S))
        for _ in range(rounds):
            try:
                found = self.ask(what, f"/operations/{operation}/wait", timeout=str(_WAIT_S))
            except CpiError:  # what the operation failed with, or the question itself
                found = self._read_begun(what, operation)
            if found is None:
                return None
            if found.get("status") == "Success":
                return found.get("metadata") or {}
            if found.get("status") in ("Failure", "Cancelled"):
                status = int(found.get("status_code") or 400)
                raise Refusal(what, status, str(found.get("err")), changes=True, is_over=True)
        raise Overdue(f"Incus did not {what} within {self.settings.state_timeout:.0f} s", remedy="look at it in Incus")

    def running(self) -> list[Row]:
        """All operations of the cluster that have not ended."""
        found = self.ask("list operations", "/operations", recursion="1") or {}
        return [row for status in ("running", "pending") for row in found.get(status) or ()]

    def at_work(self) -> dict[str, list[str]]:
        """Instances that operations are at, also those that are not to be seen yet: the operations' ids by name."""
        found: dict[str, list[str]] = {}
        for row in self.running():
            for url in (row.get("resources") or {}).get("instances") or ():
                found.setdefault(str(url).partition("?")[0].rpartition("/")[2], []).append(str(row["id"]))
        return found

    def _read_begun(self, what: str, operation: str) -> Any:
        try:
            return self.ask(what, f"/operations/{operation}")
        except CpiError as error:
            remedy = "look at it in Incus"
            raise OutcomeUnknown(f"whether Incus could {what} is not known", why=str(error), remedy=remedy) from error

    def _call(
        self,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        changes: bool,
        send_by: float = 0.0,
    ) -> tuple[Row, str]:
        """The whole answer and its etag."""
        if not self._is_trusted:
            self._become_trusted()
        raw: Body = body if body is None or hasattr(body, "__next__") else json.dumps(body).encode()
        words = urlencode({"project": self.settings.project, **query}, quote_via=quote)
        answer = self._send(what, method, f"{self._origin}/1.0{path}?{words}", headers or {}, raw, changes, send_by)
        try:
            found: Row = json.loads(answer.body or b"{}")
        except ValueError:
            found = {}
        status = int(found.get("error_code") or answer.status)
        if answer.status < 300 and found.get("type") != "error":
            return found, answer.headers.get("etag", "")
        raise Refusal(what, status, str(found.get("error") or answer.body[:200]), changes=changes)

    def _send(
        self, what: str, method: str, url: str, headers: Mapping[str, str], body: Body, changes: bool, send_by: float
    ) -> Answer:
        try:
            with self.permit.call(f"incus {method}", changes=changes) as call:
                if send_by and running_on() >= send_by:
                    raise NotSent(f"the turn to {what} came too late", remedy="repeat", retryable=True)
                answer = self._http.request(method, url, headers, body)
                if answer.status == _THROTTLED:
                    call.slow_down(answer.retry_after)
                return answer
        except (NotTaken, AnswerLost) as error:
            raise call_error(error, what=what, cloud="Incus", changes=changes, remedy=_REACH) from None

    @property
    def _origin(self) -> str:
        return self.settings.url or "http://incus"

    def _connect(self) -> http.client.HTTPConnection:
        """Not opened yet."""
        if self.settings.url:
            host, _, port = self.settings.url.removeprefix("https://").partition(":")
            timeout = self.settings.connect_timeout
            return http.client.HTTPSConnection(host, int(port or 8443), timeout=timeout, context=self._tls_context())
        path = self.settings.socket or SOCKET  # Incus asks for nothing there: what the conductor's user may, it may
        require_source(self.permit.credential_sources, "socket", path, {})
        return SocketConnection(path, self.settings.connect_timeout)

    def _tls_context(self) -> ssl.SSLContext:
        """Incus signs its own certificate, so the very one is believed, whatever name is in it."""
        if self._tls is None:
            try:
                self._tls = ssl.create_default_context(cadata=self.settings.server_cert)
                self._tls.check_hostname = False
                self._tls.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
                self._load_client_certificate(self._tls)
            except (OSError, ssl.SSLError) as error:
                raise CpiError(
                    "properties.server_cert, client_cert or client_key cannot be read", remedy="give PEM texts"
                ) from error
        return self._tls

    def _load_client_certificate(self, context: ssl.SSLContext) -> None:
        """Python reads it from a file only, which goes again at once."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="coterie-incus-") as folder:
            pem = Path(folder) / "client.pem"
            pem.touch(mode=0o600)
            pem.write_text(f"{self.settings.client_cert}\n{self.settings.client_key}\n")
            context.load_cert_chain(pem)

    def _become_trusted(self) -> None:
        """A trust token is good for one time: where the certificate is trusted already it is not sent."""
        self._is_trusted = True
        server = self.ask("see whether Incus trusts the client certificate", "")
        if server and server.get("auth") != "trusted":
            body = {"type": "client", "trust_token": self.settings.trust_token}
            self.change("have the client certificate trusted", "POST", "/certificates", body)


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("incus", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _rest_after(error: Exception, usual: float) -> float | None:
    if isinstance(error, Refusal) and error.http_status not in (_BUSY, _THROTTLED):
        return None
    retryable = isinstance(error, (Refusal, Throttled, Unavailable))
    return usual if retryable else None
