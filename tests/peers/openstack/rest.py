"""Plain HTTP to the services, with nothing between: for seeding them, and for tests that look past the driver."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import Any

from tests.peers.openstack.layout import PASSWORD

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the environment names


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status} {text[:500]}")
        self.status = status


def ask(
    method: str,
    url: str,
    body: Any = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> tuple[int, Message, Any]:
    """Status, headers, and the body: read if it is JSON. Bytes are sent as they are."""
    raw = isinstance(body, bytes)
    sent = {"Accept": "application/json", **(headers or {})}
    if body is not None:
        sent.setdefault("Content-Type", "application/octet-stream" if raw else "application/json")
    if token:
        sent["X-Auth-Token"] = token
    data = body if raw or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        with _DIRECT.open(request, timeout=timeout) as answer:
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text[:1] in (b"{", b"[") else text
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def call(method: str, url: str, body: Any = None, token: str | None = None, **more: Any) -> Any:
    status, _, found = ask(method, url, body, token, **more)
    if status >= 300:
        raise Refused(status, found.decode(errors="replace") if isinstance(found, bytes) else str(found))
    return found


def login(keystone: str, user: str = "admin", project: str = "admin") -> str:
    domain = {"id": "default"}
    who = {"name": user, "domain": domain, "password": PASSWORD}
    identity = {"methods": ["password"], "password": {"user": who}}
    order = {"auth": {"identity": identity, "scope": {"project": {"name": project, "domain": domain}}}}
    status, headers, found = ask("POST", f"{keystone}/v3/auth/tokens", order)
    if status >= 300:
        raise Refused(status, str(found))
    return str(headers["X-Subject-Token"])
