"""What the routes work with: the ledger, the Director's identity and settings, and whether the process is ending."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from anyio import CapacityLimiter
from fastapi import Depends, Request

from coterie.director.access.attempts import Attempts
from coterie.director.http.slots import Slots, WaitingSlots
from coterie.director.process.state_folder import StateFolder
from coterie.director.services.readiness import Readiness
from coterie.director.services.ring_moves import RingMoves
from coterie.ledger.rows.identity import Identity
from coterie.ledger.store import Ledger
from coterie.settings import Settings

if TYPE_CHECKING:
    from coterie.director.access.oidc import Oidc

_REQUESTS_OF_A_CALLER, _DOCUMENTS_OF_A_CALLER = 16, 4
_LARGE, _LARGE_OF_A_CALLER = 4, 2
_STREAMS, _STREAMS_OF_A_CALLER, _STREAM_THREADS = 200, 32, 8


@dataclass(slots=True)
class Activity:
    """Requests in flight, and when the last one ended; touched by the event loop only."""

    open: int = 0
    last: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        self.open += 1

    def end(self) -> None:
        self.open -= 1
        self.last = time.monotonic()

    def idle_for(self) -> float:
        return 0.0 if self.open else time.monotonic() - self.last


@dataclass(frozen=True, slots=True)
class Loopback:
    """A listener for browsers on this machine. Its port may be another process's later, its id is its own for good."""

    origin: str
    id: str


@dataclass(slots=True)
class AppContext:
    ledger: Ledger
    identity: Identity
    settings: Settings
    state_folder: StateFolder
    token: str | None = None  # from the settings: always an admin's, besides those in the ledger
    oidc: Oidc | None = None
    guarded: bool = False  # callers must authenticate; False and no token: the socket's permissions decide
    local: bool = False
    database: str = ""  # its URL, for processes of our own
    resumed: list[dict[str, Any]] = field(default_factory=list)  # tasks that continue after this start
    activity: Activity = field(default_factory=Activity)
    ending: bool = False
    streams: Slots = field(default_factory=lambda: Slots("event streams", _STREAMS_OF_A_CALLER, _STREAMS))
    requests: WaitingSlots = field(default_factory=lambda: WaitingSlots(_REQUESTS_OF_A_CALLER))
    documents: WaitingSlots = field(default_factory=lambda: WaitingSlots(_DOCUMENTS_OF_A_CALLER))
    large_documents: Slots = field(default_factory=lambda: Slots("large documents", _LARGE_OF_A_CALLER, _LARGE))
    stream_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_STREAM_THREADS))
    ring_moves: RingMoves = field(default_factory=RingMoves)
    attempts: Attempts = field(default_factory=Attempts)
    readiness: Readiness = field(default_factory=Readiness)
    open_loopback: Callable[[], Loopback] | None = None  # listens for the console if nothing does yet

    @property
    def locked(self) -> bool:
        return self.guarded or self.token is not None


def _context(request: Request) -> AppContext:
    found: AppContext = request.app.state.context
    return found


Context = Annotated[AppContext, Depends(_context)]
