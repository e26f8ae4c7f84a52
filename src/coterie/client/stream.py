"""Server-sent events, read to their end: after a cut the stream is taken up again where it broke."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.client.api import VERSION_HEADER, Api
from coterie.client.problems import ApiProblem, problem_of
from coterie.errors import CoterieError, Unreachable

_SILENCE_S = 30.0  # the Director sends a heartbeat every ten seconds
_PATIENCE_S = 60.0


class Message(NamedTuple):
    kind: str
    data: Any


class TimedOut(CoterieError):
    """We stop waiting; the task does not stop."""

    code, exit_code = "timed_out", 9


def follow(api: Api, path: str, deadline: float | None = None) -> Iterator[Message]:
    """Events until `end` (not given on) or, for endless streams, for ever. Reconnects with Last-Event-ID."""
    last: str | None = None
    broken_since: float | None = None
    while True:
        try:
            for number, message in _read(api, path, last, deadline):
                last, broken_since = number or last, None
                yield message
                if message.kind == "end":
                    return
        except (OSError, http.client.HTTPException, Unreachable, ApiProblem) as error:
            if isinstance(error, ApiProblem) and not error.is_passing:
                raise
            broken_since = broken_since or time.monotonic()
            if time.monotonic() - broken_since > _PATIENCE_S:
                raise _connection_lost(error) from error
        _check(deadline)
        time.sleep(0.2)


def _read(api: Api, path: str, last: str | None, deadline: float | None) -> Iterator[tuple[str | None, Message]]:
    headers = {"Accept": "text/event-stream", **VERSION_HEADER}
    if last is not None:
        headers["Last-Event-ID"] = last
    if api.route.token:
        headers["Authorization"] = f"Bearer {api.route.token}"
    connection = api.route.open(_patience(deadline))
    try:
        connection.request("GET", api.route.prefix + path, headers=headers)
        response = connection.getresponse()
        if response.status >= 300:
            raise problem_of(response.status, response.read())
        yield from _messages(response, connection, deadline)
    finally:
        connection.close()


def _messages(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float | None
) -> Iterator[tuple[str | None, Message]]:
    fields: dict[str, str] = {}
    while True:
        if connection.sock is not None:
            connection.sock.settimeout(_patience(deadline))
        line = response.readline()
        _check(deadline)
        if not line:
            return
        text = line.decode("utf-8").rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield fields.get("id"), Message(fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}


def _patience(deadline: float | None) -> float:
    return _SILENCE_S if deadline is None else max(0.05, min(_SILENCE_S, deadline - time.monotonic()))


def _check(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() >= deadline:
        raise TimedOut("waited long enough", why="the time given for it has passed", remedy="the task goes on")


def _connection_lost(error: Exception) -> Unreachable:
    return Unreachable(
        "the Director is gone",
        why=str(error) or type(error).__name__,
        remedy="conductors go on with the task; where the Director runs the work itself, it goes on when that runs "
        "again; follow it with `coterie tasks watch`",
    )
