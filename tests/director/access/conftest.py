"""A Director that requires authentication, and callers of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.director.access.tokens import create
from coterie.director.app import build
from coterie.director.context import AppContext
from tests.director.asgi import Client, Reply

Make = Callable[..., "Person"]


class Person:
    """A client with a token."""

    def __init__(self, client: Client, token: str, token_id: str = "") -> None:
        self._client = client
        self.token = token
        self.id = token_id

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        return self._client.send(method, path, body, {**headers, "authorization": f"Bearer {self.token}"})


@pytest.fixture
def locked(context: AppContext) -> Iterator[Client]:
    context.guarded = True
    made = Client(build(context))
    yield made
    made.close()


@pytest.fixture
def person(context: AppContext, locked: Client) -> Make:
    def make(role: str, *teams: str, name: str | None = None, days: int = 1) -> Person:
        with context.ledger.write() as tx:
            made = create(tx, name or role, role, teams or None, "test", days)
        return Person(locked, made.text, made.id)

    return make
