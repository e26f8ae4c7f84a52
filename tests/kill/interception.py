"""Puts itself around every commit of the ledger, every call of a driver and every change of the simulated cloud.

Nothing is listed here by hand: a commit is named by the function that made it, so a new one is discovered by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from coterie.engine.fence import FencedCpi
from coterie.ledger import schema
from coterie.ledger.file import FileLedger
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps, tasks
from coterie.sandbox.store import Transaction
from tests.kill.points import Tracer

_UNHEARD = {"capabilities", "info", "ping"}  # answered by the driver alone: no cloud is called
_note = threading.local()  # what the transaction of this thread is about


def install(tracer: Tracer) -> None:
    """For the rest of this process's life."""
    _around_ledger(tracer)
    _around_migrations(tracer)
    _around_driver(tracer)
    _around_cloud(tracer)


def _around_ledger(tracer: Tracer) -> None:
    for name in ("write", "write_outcomes", "write_silently"):
        setattr(Ledger, name, _watch(getattr(Ledger, name), tracer))
    for name in ("write", "write_silently"):
        setattr(FileLedger, name, _watch(getattr(FileLedger, name), tracer))
    steps.commit = _note_words(steps.commit, lambda tx, outcomes, *_: [_words_of(outcome) for outcome in outcomes])
    tasks.create = _note_words(tasks.create, lambda tx, new: [new.kind])


def _watch(original: Callable[..., Any], tracer: Tracer) -> Callable[..., Any]:
    @contextmanager
    def write(self: Ledger | FileLedger) -> Iterator[Any]:
        _note.words = []
        place = _place(sys._getframe(1), "contextlib")
        with original(self) as tx:
            yield tx
            kind = " ".join(("commit", place, *_note.words))
            tracer.reach(kind, "before")
        tracer.reach(kind, "after")

    return write


def _note_words(function: Callable[..., Any], words: Callable[..., list[str]]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        _note.words += words(*args, **kwargs)
        return function(*args, **kwargs)

    return noted


def _words_of(outcome: steps.Outcome) -> str:
    """Flow, label, how it goes on, and what becomes of the objects: `node.delete.retire→retire[deleting]`."""
    goes_on = outcome.label if outcome.move == "next" else outcome.move
    objects = [str(write.values.get("state", "changed")) for write in outcome.writes if write.table == "objects"]
    changed = f"[{','.join(objects)}]" if objects else ""
    return f"{outcome.claim.flow}.{outcome.claim.label}→{goes_on}{changed}"


def _around_migrations(tracer: Tracer) -> None:
    run, upgrade, kind = schema._run_migrations, schema.upgrade, "commit ledger.schema.upgrade"
    ran = []

    def run_migrations(tx: Any) -> None:
        run(tx)
        ran.append(tx)
        tracer.reach(kind, "before")

    def whole(engine: Any) -> None:
        upgrade(engine)
        if ran:
            tracer.reach(kind, "after")

    schema._run_migrations, schema.upgrade = run_migrations, whole


def _around_driver(tracer: Tracer) -> None:
    original = FencedCpi._fence

    def fence(self: FencedCpi, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if name in _UNHEARD:
            return original(self, name, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            tracer.reach(f"call {name}", "before")
            answer = method(*args, **kwargs)
            tracer.reach(f"call {name}", "after")
            return answer

        return original(self, name, call)

    FencedCpi._fence = fence  # type: ignore[method-assign]  # as above


def _around_cloud(tracer: Tracer) -> None:
    original = Transaction.__exit__

    def leave(self: Transaction, kind: Any, error: BaseException | None, trace: object) -> None:
        if error is not None or self._begin == "BEGIN":
            original(self, kind, error, trace)
            return
        place = f"cloud {_place(sys._getframe(1), 'coterie.sandbox.')}"
        tracer.reach(place, "before")
        original(self, kind, error, trace)
        tracer.reach(place, "after")

    Transaction.__exit__ = leave  # type: ignore[method-assign]  # as above


def _place(frame: FrameType | None, inner: str) -> str:
    """The function nearest to `frame`, going outwards, that is not of the modules `inner`."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(inner):
        frame = frame.f_back
    if frame is None:
        return "nowhere"
    return f"{frame.f_globals['__name__'].removeprefix('coterie.')}.{frame.f_code.co_qualname}"
