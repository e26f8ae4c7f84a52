"""Requests to the Director: JSON in and out, pages gathered, problems raised as typed errors."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from coterie.cli.link.problems import ApiProblem, problem_of
from coterie.cli.link.route import Route
from coterie.errors import Unreachable

VERSION_HEADER = {"Coterie-API-Version": "latest"}
_TIMEOUT_S = 180.0
_PAGE = 1000
_TRIES = 4
# The first request of a Director that was killed is given up after 10 s; then the repetition runs.
_OWN_REQUEST_S = 60.0


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any


class Api:
    def __init__(
        self,
        route: Route,
        note: Callable[[str], None] = lambda words: None,
        *,
        tries: int = _TRIES,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self.route = route
        self._note = note
        self._tries = tries
        self._timeout_s = timeout_s

    def get(self, path: str, **query: Any) -> Any:
        return self.send("GET", path, query).body

    def list(self, path: str, query: Mapping[str, Any] | None = None, limit: int | None = None) -> dict[str, Any]:
        """All pages as one, in the form of a page; or at most `limit` rows."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            left = _PAGE if limit is None else min(_PAGE, limit - len(items))
            page = self.get(path, **(query or {}), limit=left, cursor=cursor)
            items += page["items"]
            cursor = page["next"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return {**page, "items": items}

    def start(self, method: str, path: str, body: Any = None, **query: Any) -> int:
        """Start work; the id of its task. A key makes it safe to repeat when the answer was lost."""
        answer = self.send(method, path, query, body, {"Idempotency-Key": os.urandom(16).hex()})
        task: int = answer.body["task_id"]
        return task

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        harmless: bool = False,
    ) -> Answer:
        """One request. It is repeated after a cut only where that does no harm."""
        headers = dict(headers or {})
        safe = harmless or method == "GET" or "Idempotency-Key" in headers
        patience = time.monotonic() + _OWN_REQUEST_S
        for attempt in itertools.count(1):
            try:
                return self._send(method, address(path, query), body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not safe or attempt >= self._tries:
                    raise _cut_off(error) from error
            except ApiProblem as problem:
                # Our first request is still being worked on: its reply will be there in a moment. Or the database
                # restarts, which a read may wait for.
                own = bool(problem.details.get("same_request")) and time.monotonic() < patience
                busy = problem.retryable and problem.code == "conflict"
                if not own and (attempt >= self._tries or not (busy or (method == "GET" and problem.is_passing))):
                    raise
            time.sleep(min(1.0, 0.2 * attempt))
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        connection = self.route.open(self._timeout_s)
        try:
            connection.request(method, self.route.prefix + path, *_encode(body, headers, self.route.token))
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        self._note(f"{method} {path} → {response.status}")
        if response.status >= 300:  # a Director redirects nowhere
            raise problem_of(response.status, raw)
        return Answer(response.status, dict(response.getheaders()), _decode(response, raw))


def address(path: str, query: Mapping[str, Any] | None = None) -> str:
    given = {name: _word(value) for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def parts(name: str) -> str:
    """A name that may be of several parts: DEPLOYMENT/GROUP/INDEX."""
    return "/".join(part(one) for one in name.split("/"))


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encode(body: Any, headers: dict[str, str], token: str | None) -> tuple[Any, dict[str, str]]:
    headers = {"Accept": "application/json", **VERSION_HEADER, **headers}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is None or "Content-Type" in headers:
        return body, headers
    return json.dumps(body).encode(), {**headers, "Content-Type": "application/json"}


def _decode(response: http.client.HTTPResponse, raw: bytes) -> Any:
    if "json" in (response.getheader("content-type") or ""):
        return json.loads(raw)
    return raw.decode("utf-8", "replace")


def _cut_off(error: Exception) -> Unreachable:
    return Unreachable(
        "the Director did not answer to the end",
        why=str(error) or type(error).__name__,
        remedy="see `coterie doctor`; the work may have begun: see `coterie tasks`",
    )
