"""Progress where there is no terminal: one line per change of state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from coterie.cli.show.plain import plain
from coterie.times import clock


class Progress(Protocol):
    def event(self, event: Mapping[str, Any]) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    def event(self, event: Mapping[str, Any]) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Lines(Silent):
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def event(self, event: Mapping[str, Any]) -> None:
        self._say(line(event))


def line(event: Mapping[str, Any]) -> str:
    kind, subject, body = (plain(event[name]) for name in ("kind", "subject", "body"))
    return f"{clock(event['at'])}  {kind:<16}  {subject:<20}  {body}".rstrip()
