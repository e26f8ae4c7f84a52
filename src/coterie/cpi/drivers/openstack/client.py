"""One request to OpenStack's services, and what their refusals mean. Paths and fields are known elsewhere.

A question is repeated while a service is busy or away; a change is sent once. Words of a refusal are read only where
Nova has nothing else: quotas, and why the scheduler found no host.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from coterie.cpi import contract
from coterie.cpi.contract import CpiError, Throttled, Unavailable
from coterie.cpi.drivers.openstack.login import (
    REACH_REMEDY,
    Services,
    Version,
    complete_settings,
    keystoneauth,
    login_error,
    open_session,
)
from coterie.cpi.drivers.openstack.properties import Settings
from coterie.cpi.kit.http import Answer, AnswerLost, Http, HttpOptions, NotTaken, ask_patiently, call_error
from coterie.cpi.kit.permit import Permit

Row = dict[str, Any]
Page = tuple[list[Row], str | None]
T = TypeVar("T")
BAD, UNAUTHORIZED, DENIED, MISSING, CONFLICT, TOO_LARGE, THROTTLED = 400, 401, 403, 404, 409, 413, 429
_MOVED = 300
BROKEN, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT = 500, 502, 503, 504
_TRACES = ("x-openstack-request-id", "x-compute-request-id")  # of every answer of a service itself
_CLASSES: dict[int, type[CpiError]] = {
    BAD: contract.InvalidCall,
    UNAUTHORIZED: contract.AuthenticationFailed,
    DENIED: contract.PrivilegeMissing,
    THROTTLED: Throttled,
    UNAVAILABLE: Unavailable,
}
_REMEDIES = {
    BAD: "correct the value that the cloud names",
    UNAUTHORIZED: "check the credentials in the cloud's properties, and that they have not expired",
    DENIED: "use a user with the right role, or have an administrator grant it",
    MISSING: "list what exists, and use one of those",
    CONFLICT: "repeat; if it stays so, look at what is in the way",
    THROTTLED: "wait, then repeat",
    UNAVAILABLE: "wait, then repeat",
}
_TEXT_LIMIT = 500
_HEADERS = {"Accept": "application/json", "User-Agent": "coterie"}
_NO_HOST = ("no valid host", "exceeded max")


class Refusal(CpiError):
    """What a service answered. Inside the driver only: `translate` names its class before it leaves."""

    def __init__(self, what: str, status: int, kind: str, text: str, retry_after: float | None = None) -> None:
        super().__init__(
            f"OpenStack refused to {what} ({status})",
            why=text,
            remedy=_REMEDIES.get(status, "repeat; if it happens again, look at the service's log"),
            retryable=status in (CONFLICT, THROTTLED) or status >= BROKEN,
            details={"retry_after": retry_after} if retry_after else None,
        )
        self.status, self.kind, self.text, self.retry_after = status, kind, text, retry_after

    @property
    def is_quota(self) -> bool:
        return self.kind == "OverQuota" or (
            self.status in (DENIED, TOO_LARGE, CONFLICT) and "quota" in f"{self.kind} {self.text}".lower()
        )


def translate(error: Refusal) -> CpiError:
    """The refusal as an error of the contract, by status and type."""
    if error.is_quota:
        remedy = "delete some, or have an administrator raise the quota"
        return contract.QuotaExceeded(error.what, why=error.why, remedy=remedy)
    found = _CLASSES.get(error.status, CpiError)
    if error.status == TOO_LARGE:
        found = Throttled if error.retry_after else contract.InvalidCall
    retryable = error.retryable or None  # else the class decides
    return found(error.what, why=error.why, remedy=error.remedy, retryable=retryable, details=error.details)


class Client:
    """Logs in on the first request. `settings` and `director_uuid` serve all parts of the driver."""

    def __init__(self, settings: Settings, permit: Permit) -> None:
        self.settings = settings
        self.permit = permit
        self.director_uuid = permit.director_uuid
        self._opening = threading.Lock()
        self._session: Any = None
        self._services: Services
        self._http: Http

    def complete_settings(self) -> Settings:
        return complete_settings(self.settings, self.permit.credential_sources)

    def get(self, what: str, service: str, path: str, **params: Any) -> Row:
        return self._repeat(lambda: self._call("GET", what, service, path, params=params))

    def put(self, what: str, service: str, path: str, body: Any = None) -> Row:
        """A change that changes nothing when it is repeated, such as to set a tag: Neutron answers 500 to some of
        several that come at once."""
        return self._repeat(lambda: self._call("PUT", what, service, path, body=body))

    def look(self, what: str, service: str, path: str, **params: Any) -> Row | None:
        """The same; None where there is no such thing."""
        try:
            return self.get(what, service, path, **params)
        except Refusal as error:
            if error.status != MISSING:
                raise
            return None

    def send(self, method: str, what: str, service: str, path: str, body: Any = None, **more: Any) -> Row:
        """A change. `more`: further headers, or a body in pieces as `data`."""
        return self._call(method, what, service, path, body=body, **more)

    def delete(self, what: str, service: str, path: str, tolerated: tuple[int, ...] = (MISSING,)) -> None:
        """Gone already is fine, or what else is `tolerated`."""
        try:
            self.send("DELETE", what, service, path)
        except Refusal as error:
            if error.status not in tolerated:
                raise

    def page(self, what: str, service: str, path: str, key: str, marker: str | None, **params: Any) -> Page:
        """One page and the marker of the next one, as the service gives it: a service may have limits of its own."""
        answer = self.get(what, service, path, limit=self.settings.page_size, marker=marker, **params)
        rows: list[Row] = answer[key]
        links = [answer["next"]] if answer.get("next") else []
        links += [str(one["href"]) for one in answer.get(f"{key}_links") or () if one.get("rel") == "next"]
        following = parse_qs(urlsplit(links[0]).query).get("marker") if links else None
        return rows, following[0] if following else None

    def list_all(self, what: str, service: str, path: str, key: str, **params: Any) -> list[Row]:
        found: list[Row] = []
        marker: str | None = None
        while True:
            rows, marker = self.page(what, service, path, key, marker, **params)
            found += rows
            if marker is None:
                return found

    def _repeat(self, ask: Callable[[], Row]) -> Row:
        settings = self.settings
        return ask_patiently(ask, retries=settings.retries, first_rest_s=settings.poll_s, rest_after=_rest_after)

    @property
    def project(self) -> str:
        self._open()
        return str(self._log_in(lambda: self._session.get_project_id()))

    @property
    def region(self) -> str | None:
        self._open()
        return self._log_in(lambda: self._services.region("compute"))

    def microversion(self, service: str) -> Version | None:
        self._open()
        return self._log_in(lambda: self._services.microversion(service))

    def _call(
        self,
        method: str,
        what: str,
        service: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        data: Iterable[bytes] | None = None,
    ) -> Row:
        self._open()
        given = {key: value for key, value in (params or {}).items() if value is not None}
        query = f"?{urlencode(given, doseq=True)}" if given else ""
        kind = {"Content-Type": "application/json"} if body is not None else {}
        changes = method != "GET"
        try:
            with self.permit.limit.pace(f"{service} {method}") as call:  # one slot for the request and for its login
                url = self._log_in(lambda: self._services.url(service)) + path + query
                sent = {**_HEADERS, **kind, **self._services.headers(service), **(headers or {})}
                if changes:
                    self.permit.require_lease()
                answer = self._send(method, url, sent, json.dumps(body).encode() if body is not None else data)
                if answer.status == THROTTLED:
                    call.slow_down(answer.retry_after)
        except (NotTaken, AnswerLost) as error:
            raise call_error(error, what=what, cloud="OpenStack", changes=changes, remedy=REACH_REMEDY) from error
        return _read(what, answer, changes)

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None) -> Answer:
        """With a new token where the service does not take the old one."""
        token = self._log_in(lambda: self._session.get_auth_headers())
        answer = self._http.request(method, url, {**headers, **token}, body)
        if answer.status != UNAUTHORIZED:
            return answer
        self._session.invalidate()
        token = self._log_in(lambda: self._session.get_auth_headers())
        return self._http.request(method, url, {**headers, **token}, body)

    def _open(self) -> None:
        with self._opening:
            if self._session is None:
                settings = self.complete_settings()
                session = open_session(settings)
                self._services = Services(settings, session)
                self._http = Http(_http_options(settings))
                self._session = session

    def _log_in(self, ask: Callable[[], T]) -> T:
        try:
            with self.permit.limit:
                return ask()
        except keystoneauth("exceptions").ClientException as error:
            raise login_error(error) from error


def read_refusal(what: str, answer: Answer) -> Refusal:
    kind, text = _inside(answer.body)
    return Refusal(what, answer.status, kind, text or f"HTTP {answer.status}", answer.retry_after)


def has_no_host(text: str) -> bool:
    """Whether a server's fault says that the scheduler, and nothing else, failed."""
    return any(words in text.lower() for words in _NO_HOST)


def has_lost_host(text: str) -> bool:
    """Whether it failed on a host that others took meanwhile: then another try may do better."""
    return _NO_HOST[1] in text.lower()


def _rest_after(error: Exception, usual: float) -> float | None:
    if isinstance(error, Refusal):
        passing = error.status == THROTTLED or error.status >= BROKEN
        return (error.retry_after or usual) if passing else None
    return usual if isinstance(error, (Unavailable, Throttled)) else None


def _http_options(settings: Settings) -> HttpOptions:
    return HttpOptions(
        connect_timeout=settings.connect_timeout,
        request_timeout=settings.request_timeout,
        ca_cert=settings.ca_cert,
        insecure=settings.insecure,
        proxy_url=settings.proxy_url,
        environment_proxy=True,
        follow_redirects=True,
    )


def _read(what: str, answer: Answer, changes: bool) -> Row:
    if answer.status >= BAD:
        raise _failure(what, answer, changes)
    if answer.status >= _MOVED:
        raise _redirected(what, answer)
    if not answer.body:
        return {}
    try:
        document = json.loads(answer.body)
    except ValueError as error:
        raise CpiError(
            f"the answer to {what} is no JSON", why=str(error), remedy="check the service's URL in the catalogue"
        ) from error
    return document if isinstance(document, dict) else {}


def _failure(what: str, answer: Answer, changes: bool) -> CpiError:
    refusal = read_refusal(what, answer)
    if answer.status == MISSING and not refusal.kind and not any(name in answer.headers for name in _TRACES):
        return Unavailable(
            f"something that is not OpenStack answered to {what}",
            why="HTTP 404 without a request id",
            remedy="check the service's URL in the catalogue, and what stands before it",
        )
    if changes and answer.status in (BAD_GATEWAY, GATEWAY_TIMEOUT):
        return call_error(AnswerLost(str(refusal)), what=what, cloud="OpenStack", changes=True)
    return refusal


def _redirected(what: str, answer: Answer) -> CpiError:
    """The service itself was not reached: a login page or a balancer stands before it."""
    return Unavailable(
        f"the request to {what} was redirected to {urlsplit(answer.headers.get('location', '')).netloc or 'nowhere'}",
        why=f"HTTP {answer.status}, which cannot be followed with credentials or a change",
        remedy="check the service's URL in the catalogue, and what stands before it",
    )


def _inside(raw: bytes) -> tuple[str, str]:
    """(type, message) of an answer, in each service's own way."""
    try:
        document = json.loads(raw)
    except ValueError:
        return "", raw[:_TEXT_LIMIT].decode("utf-8", "replace") if not raw.lstrip().startswith(b"<") else ""
    if not isinstance(document, Mapping):
        return "", ""
    name, inside = next(iter(document.items()), ("", ""))
    if not isinstance(inside, Mapping):
        return "", str(document.get("message") or inside)[:_TEXT_LIMIT]
    text = str(inside.get("message") or inside.get("detail") or "")
    return str(inside.get("type") or name), text[:_TEXT_LIMIT]
