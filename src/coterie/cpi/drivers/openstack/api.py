"""OpenStack's REST services: one call, one list. What paths and fields mean is known elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from coterie.cpi.contract import CpiError, Throttled, Unavailable
from coterie.cpi.drivers.openstack import sdk
from coterie.cpi.drivers.openstack.catalogue import Catalogue
from coterie.cpi.drivers.openstack.login import opened
from coterie.cpi.drivers.openstack.losses import login_failed, lost
from coterie.cpi.drivers.openstack.properties import Settings
from coterie.cpi.drivers.openstack.refusals import (
    BAD_GATEWAY,
    BROKEN,
    GATEWAY_TIMEOUT,
    MISSING,
    THROTTLED,
    Refusal,
    refusal,
)

Row = dict[str, Any]
Page = tuple[list[Row], str | None]
T = TypeVar("T")
_LONGEST_REST_S = 30.0
_TRACES = ("X-Openstack-Request-Id", "X-Compute-Request-Id")  # of every answer of a service itself


class Api:
    def __init__(self, settings: Settings) -> None:
        self._given = settings
        self._session: Any = None
        self._catalogue: Catalogue | None = None
        self.calls = 0

    def get(self, what: str, service: str, path: str, **params: Any) -> Row:
        """A question may be asked again: when the service is busy or away, as long as the settings allow."""
        return self._patient(lambda: self._once("GET", what, service, path, params=params))

    def look(self, what: str, service: str, path: str, **params: Any) -> Row | None:
        """The same; None where there is no such thing."""
        try:
            return self.get(what, service, path, **params)
        except Refusal as error:
            if error.status != MISSING:
                raise
            return None

    def send(self, method: str, what: str, service: str, path: str, body: Any = None, **more: Any) -> Row:
        """A change is asked for once; `more` goes to requests as it is."""
        return self._once(method, what, service, path, **({"json": body} if body is not None else {}), **more)

    def page(self, what: str, service: str, path: str, key: str, marker: str | None, **params: Any) -> Page:
        """One page and the marker of the next, as the service says it, so that its own limits do no harm."""
        limit = self._given.page_size
        answer = self.get(what, service, path, limit=limit, marker=marker, **params)
        rows: list[Row] = answer[key]
        links = [answer["next"]] if answer.get("next") else []
        links += [str(one["href"]) for one in answer.get(f"{key}_links") or () if one.get("rel") == "next"]
        following = parse_qs(urlsplit(links[0]).query).get("marker") if links else None
        return rows, following[0] if following else None

    @property
    def project(self) -> str:
        return str(self._logged_in(lambda: self._open().get_project_id()))

    @property
    def user(self) -> str:
        return str(self._logged_in(lambda: self._open().get_user_id()))

    def version(self, service: str) -> tuple[int, int] | None:
        """The microversion that is spoken with this service."""
        self._open()
        return self._logged_in(lambda: self._services().microversion(service))

    def _services(self) -> Catalogue:
        assert self._catalogue, "opened with the session"
        return self._catalogue

    def _once(self, method: str, what: str, service: str, path: str, **more: Any) -> Row:
        """`log`: bodies hold what agents are told, so the library must not log them."""
        session, changes = self._open(), method != "GET"
        catalogue = self._services()
        url = self._logged_in(lambda: catalogue.url(service)) + path
        headers = {**catalogue.headers(service), "Accept": "application/json", **more.pop("headers", {})}
        if "params" in more:
            more["params"] = {key: value for key, value in more["params"].items() if value is not None}
        self.calls += 1
        try:
            answer = session.request(
                url,
                method,
                headers=headers,
                raise_exc=False,
                log=False,
                timeout=(self._given.connect_timeout, self._given.request_timeout),
                **more,
            )
        except sdk.part("exceptions").ClientException as error:
            raise lost(what, error, changes=changes) from error
        return _read(what, answer, changes)

    def _patient(self, ask: Callable[[], T]) -> T:
        for attempt in range(self._given.retries):
            rest = min(self._given.poll_s * 2**attempt, _LONGEST_REST_S)
            try:
                return ask()
            except Refusal as error:
                if error.status != THROTTLED and error.status < BROKEN:
                    raise
                rest = min(error.retry_after or rest, _LONGEST_REST_S)
            except (Unavailable, Throttled):
                pass
            time.sleep(rest)
        return ask()

    def _open(self) -> Any:
        if self._session is None:
            settings, session = opened(self._given)
            self._catalogue = Catalogue(settings, session)
            self._session = session
        self._logged_in(self._session.get_token)
        return self._session

    def _logged_in(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except sdk.part("exceptions").ClientException as error:
            raise login_failed(error) from error


def _read(what: str, answer: Any, changes: bool) -> Row:
    if answer.status_code >= 400:
        told = refusal(what, answer.status_code, answer.content, answer.headers.get("Retry-After"))
        if answer.status_code == MISSING and not told.kind and not any(name in answer.headers for name in _TRACES):
            raise Unavailable(
                f"something that is not OpenStack answered to {what}",
                why="HTTP 404 without a request id",
                remedy="check the service's URL in the catalogue, and what stands before it",
            )
        if changes and answer.status_code in (BAD_GATEWAY, GATEWAY_TIMEOUT):
            raise lost(what, told, changes=True)
        raise told
    if not answer.content:
        return {}
    try:
        document = answer.json()
    except ValueError as error:
        raise CpiError(
            f"the answer to {what} is no JSON", why=str(error), remedy="check the service's URL in the catalogue"
        ) from error
    return document if isinstance(document, dict) else {}
