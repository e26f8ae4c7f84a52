"""Requests to a Director: JSON in and out, problems raised as typed errors, repetition after a cut where it is safe."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from coterie.client.problems import ApiProblem, problem_of
from coterie.client.routes import Route
from coterie.errors import Unreachable, UsageError

VERSION_HEADER = {"Coterie-API-Version": "latest"}
_TIMEOUT_S = 180.0
_TRIES = 4
# The first request of a Director that was killed is given up after 10 s; then the repetition runs.
_OWN_REQUEST_S = 60.0
_RESTART_S = 15.0


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any


class Shown(dict[str, Any]):
    """A resource with the entity tag of its state, for `if_match`."""

    etag: str | None = None


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

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        media_type: str | None = None,
        key: str | None = None,
        if_match: str | Mapping[str, Any] | None = None,
        harmless: bool = False,
    ) -> Any:
        """The body of the answer. The Director does the work of one Idempotency-Key once, however often it is sent."""
        headers = {} if key is None else {"Idempotency-Key": key}
        if if_match is not None:
            headers["If-Match"] = _tag_of(if_match)
        if media_type is not None:
            headers |= {"Content-Type": media_type, "Content-Length": str(body.seek(0, os.SEEK_END))}
        answer = self.send(method, path, query, body, headers, harmless=harmless)
        tag = next((value for name, value in answer.headers.items() if name.lower() == "etag"), None)
        if tag is None or not isinstance(answer.body, dict):
            return answer.body
        shown = Shown(answer.body)
        shown.etag = tag
        return shown

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
        cut: Exception | None = None  # the work may have begun
        patience = restarted = 0.0  # until when to wait for our own first request, and for a Director that restarts
        for attempt in itertools.count(1):
            try:
                return self._send(method, address(path, query), body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not safe or attempt >= self._tries:
                    raise _cut_off(error) from error
                cut, restarted = error, restarted or time.monotonic() + _RESTART_S
            except Unreachable:
                if cut is None:
                    raise
                if time.monotonic() >= restarted:
                    raise _cut_off(cut) from cut
            except ApiProblem as problem:
                # Our first request is still being worked on: its reply will be there in a moment. Or the database
                # restarts, which a read may wait for.
                own = bool(problem.details.get("same_request"))
                if own:
                    patience = patience or time.monotonic() + _OWN_REQUEST_S
                    own = time.monotonic() < patience
                busy = problem.retryable and problem.code == "conflict"
                if not own and (attempt >= self._tries or not (busy or (method == "GET" and problem.is_passing))):
                    raise
            time.sleep(min(1.0, 0.2 * attempt))
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        if hasattr(body, "seek"):
            body.seek(0)  # a repetition sends the whole file again
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
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def parts(name: str) -> str:
    """A name that may be several parts of a path: DEPLOYMENT/GROUP/INDEX."""
    return "/".join(part(one) for one in name.split("/"))


def new_key() -> str:
    return os.urandom(16).hex()


def without_none(given: dict[str, Any]) -> dict[str, Any]:
    """What was not given is not sent: a Director of an earlier release need not know the word."""
    return {name: value for name, value in given.items() if value is not None}


def _tag_of(state: str | Mapping[str, Any]) -> str:
    tag = state if isinstance(state, str) else getattr(state, "etag", None)
    if tag is None:
        raise UsageError(
            "if_match has no entity tag",
            why="only what `get` of a deployment, a node or the cloud config returned carries one",
            remedy="give that as it was returned, or the text of an ETag",
        )
    return tag


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _encode(body: Any, headers: dict[str, str], token: str | None) -> tuple[Any, dict[str, str]]:
    headers = {"Accept": "application/json", **VERSION_HEADER, **headers}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is None or "Content-Type" in headers:
        return body, headers
    return json.dumps(body).encode(), {**headers, "Content-Type": "application/json"}


def _decode(response: http.client.HTTPResponse, raw: bytes) -> Any:
    if "json" in (response.getheader("content-type") or ""):
        try:
            return json.loads(raw)
        except ValueError:
            raise problem_of(response.status, raw) from None
    return raw.decode("utf-8", "replace")


def _cut_off(error: Exception) -> Unreachable:
    return Unreachable(
        "the Director did not answer to the end",
        why=str(error) or type(error).__name__,
        remedy="see `coterie doctor`; the work may have begun: see `coterie tasks`",
    )
