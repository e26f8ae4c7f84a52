"""A browser without a screen: forms and links over HTTP, one cookie jar, no JavaScript."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urlencode, urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    cookies: list[str]


@dataclass
class Visitor:
    url: str
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    def get(self, path: str, **headers: str) -> Answer:
        found = self._send("GET", path, None, headers)
        token = re.search(r'name="csrf" value="([0-9a-f]{64})"', found.text)
        self.csrf = token[1] if token else self.csrf
        return found

    def post(self, path: str, fields: dict[str, str] | list[tuple[str, str]] | None = None, **headers: str) -> Answer:
        given = list(fields.items()) if isinstance(fields, dict) else list(fields or [])
        body = urlencode([*given, *([("csrf", self.csrf)] if self.csrf else [])]).encode()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self._send("POST", path, body, {**kind, **headers})

    def follow(self, answer: Answer) -> Answer:
        assert answer.status == 303, (answer.status, words(answer.text))
        return self.get(answer.headers["location"].partition("#")[0])

    def log_in(self, token: str) -> Visitor:
        answer = self.post("/login", {"token": token, "next": "/"})
        assert answer.status == 200, words(answer.text)
        self.get("/access")
        return self

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        jar = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {"accept": "text/html", **({"cookie": jar} if jar else {})}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        reply = connection.getresponse()
        text = reply.read().decode()
        cookies = reply.msg.get_all("set-cookie") or []
        for cookie in cookies:
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0].strip('"')
            if value and "Max-Age=0" not in cookie:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        connection.close()
        return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, text, cookies)


def words(text: str) -> str:
    """What a page says, without its elements."""
    main = text.partition("<main")[2] or text
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", main)))
