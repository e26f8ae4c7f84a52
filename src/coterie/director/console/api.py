"""Calls the API's own routes in this process, as the caller of a page: with its role, teams, limits and records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope

from coterie.director.access.caller import Caller
from coterie.director.access.middleware import CALLER, OVER_LOOPBACK
from coterie.director.console.middleware import API_APP

Json = dict[str, Any]
_PASSED_ON = (b"x-forwarded-for",)  # the record of changes names the address of the browser


class Refusal(Exception):
    """The API answered with a problem."""

    def __init__(self, problem: Json) -> None:
        super().__init__(str(problem.get("what", "")))
        self.problem = problem
        self.status = int(problem.get("status", 500))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


class Api:
    def __init__(self, app: ASGIApp, scope: Scope, caller: Caller | None) -> None:
        self._app = app
        self._scope = scope
        self._caller = caller

    async def get(self, path: str, **query: Any) -> Any:
        return (await self.send("GET", path, query=query)).json

    async def find(self, path: str, **query: Any) -> Any:
        """None where the answer is a refusal: a part of a page that its caller does not get."""
        try:
            return await self.get(path, **query)
        except Refusal as refusal:
            if refusal.status in (403, 404):
                return None
            raise

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Json | None = None,
        headers: dict[str, str] | None = None,
        receive: Receive | None = None,
    ) -> Answer:
        """The API's answer; Refusal if it is a problem. `receive`: of a request whose body is passed on as it comes."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        raw = b"" if body is None else json.dumps(body).encode()
        sent = {"content-length": str(len(raw)), **(headers or {})} if receive is None else headers or {}
        if body is not None:
            sent["content-type"] = "application/json"
        scope = self._new_scope(method, path, query or {}, sent)
        await self._app(scope, receive or _receiver(raw), keep)
        answer = _answer(messages)
        if answer.status >= 400:
            raise Refusal(answer.json or {"what": f"status {answer.status}", "status": answer.status})
        return answer

    async def stream(self, path: str, headers: dict[str, str]) -> AsyncIterator[str]:
        """The blocks of an event stream; ends with it. A refusal raises before the first block."""
        arrived: asyncio.Queue[Message | None] = asyncio.Queue(1000)
        scope = self._new_scope("GET", path, {}, {"accept": "text/event-stream", **headers})

        async def run() -> None:
            try:
                await self._app(scope, _receiver(b""), arrived.put)
            finally:
                await arrived.put(None)

        running = asyncio.create_task(run())
        try:
            start = await arrived.get()
            if start is None or start["status"] >= 400:
                part = await arrived.get() if start else None
                raise Refusal(json.loads(part["body"]) if part else {"what": "the stream did not begin"})
            while (message := await arrived.get()) is not None:
                if message.get("body"):
                    yield message["body"].decode()
        finally:
            running.cancel()

    def _new_scope(self, method: str, path: str, query: Json, headers: dict[str, str]) -> Scope:
        given = {name: value for name, value in query.items() if value is not None and value != ""}
        kept = [one for one in self._scope.get("headers", ()) if one[0] in _PASSED_ON]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self._scope.get("scheme", "http"),
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": urlencode(given, doseq=True).encode(),
            "headers": [*kept, *((name.encode(), value.encode("latin-1")) for name, value in headers.items())],
            "server": self._scope.get("server"),
            "client": self._scope.get("client"),
            "app": self._scope[API_APP],
        }
        if OVER_LOOPBACK in self._scope:  # else a call without a caller would be the owner of the socket
            scope[OVER_LOOPBACK] = self._scope[OVER_LOOPBACK]
        return scope if self._caller is None else {**scope, CALLER: self._caller}


def _receiver(raw: bytes) -> Receive:
    """A client that stays until it has its answer."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": raw, "more_body": False}

    return receive


def _answer(messages: list[Message]) -> Answer:
    start = next(one for one in messages if one["type"] == "http.response.start")
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start.get("headers", ())}
    body = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    return Answer(start["status"], headers, body)
