"""The API of the datacenter: every call of a tenant passes here, with faults, in one transaction, and is logged.

Decorating a function that works on a `Tx` makes it a call that takes an `Account`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from coterie.errors import CoterieError
from coterie.sandbox import calls, faults
from coterie.sandbox.calls import Switches
from coterie.sandbox.datacenter import Account, Datacenter
from coterie.sandbox.errors import INJECTABLE, AnswerLost, Failed, Throttled
from coterie.sandbox.faults import Fault
from coterie.sandbox.twist import STRAIGHT, Twist, Tx

P = ParamSpec("P")
R = TypeVar("R")
METHODS: dict[str, bool] = {}  # every call → whether it changes anything
_HANG_LOOK_S = 0.02


def api(
    method: str, *, writes: bool = True
) -> Callable[[Callable[Concatenate[Tx, P], R]], Callable[Concatenate[Account, P], R]]:
    """Make `work` the call `method`. A reading call sees one snapshot; a writing one is alone while it works."""
    METHODS[method] = writes

    def publish(work: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Account, P], R]:
        @wraps(work)
        def call(account: Account, /, *args: P.args, **kwargs: P.kwargs) -> R:
            def do(twist: Twist | None) -> R:
                return _once(account, writes, twist, lambda tx: work(tx, *args, **kwargs))

            with account.slot(method):
                try:
                    return do(STRAIGHT if account.operator else None)
                except _Watched as watched:
                    return _run_watched(account, method, watched.switches, do, lambda db: _subject(db, args, kwargs))

        return call

    return publish


def work_of(call: Callable[Concatenate[Account, P], R]) -> Callable[Concatenate[Tx, P], R]:
    """The work behind a call, for a front that does several in one transaction and bends its own calls itself."""
    work: Callable[Concatenate[Tx, P], R] = call.__wrapped__  # type: ignore[attr-defined] # left there by wraps
    return work


class _Watched(Exception):
    """Some fault is set or the log is on: the call was left untouched and must go the long way."""

    def __init__(self, switches: Switches) -> None:
        self.switches = switches


def _run_watched(
    account: Account,
    method: str,
    switches: Switches,
    do: Callable[[Twist], R],
    subject: Callable[[sqlite3.Connection], str],
) -> R:
    store = account.datacenter.store
    error: str | None = "died"
    try:
        answer = _run_with_faults(account, method, do, faults.take(store, method, subject) if switches.faults else [])
        error = None
        return answer
    except CoterieError as refusal:
        error = refusal.code
        raise
    finally:
        if switches.log:
            calls.record(store, method, account.name, account.datacenter.clock(), error)


def _run_with_faults(account: Account, method: str, do: Callable[[Twist], R], active: list[Fault]) -> R:
    for fault in active:
        _before(account, method, fault)
    modes = {fault.mode for fault in active}
    twist = Twist(
        late_s=_longest(active, "late-visibility"),
        broken_vm="vm-error-state" in modes,
        build_s=_longest(active, "slow-build"),
    )
    if "twice" in modes:
        do(twist)
    answer = do(twist)
    if "timeout-after-commit" in modes:
        raise _answer_lost(method)
    if "error-after-commit" in modes:
        raise Failed(f"{method} failed in the cloud", why="an injected fault", remedy="look whether it was done")
    return answer


def _before(account: Account, method: str, fault: Fault) -> None:
    if fault.mode == "latency":
        account.datacenter.sleep((fault.ms or 0) / 1000)
    elif fault.mode == "hang":
        hang(account.datacenter, fault)
    elif fault.mode == "throttle":
        raise Throttled(f"{method} was throttled", remedy="wait", details={"retry_after": (fault.ms or 1000) / 1000})
    elif fault.mode == "timeout-before-commit":
        raise _answer_lost(method)
    elif fault.mode == "error":
        raise INJECTABLE[fault.code or "failed"](
            f"{method} failed in the cloud",
            why="an injected fault",
            remedy="repeat it, or remove the fault with `coterie sandbox fault clear`",
            retryable=fault.retryable,
        )


def hang(datacenter: Datacenter, fault: Fault) -> None:
    """Return when the fault lets go."""
    until = None if fault.ms is None else datacenter.clock() + fault.ms / 1000
    while faults.holds(datacenter.store, fault) and (until is None or datacenter.clock() < until):
        datacenter.sleep(_HANG_LOOK_S)
    faults.forget_spent(datacenter.store, fault)


def _once(account: Account, writes: bool, twist: Twist | None, work: Callable[[Tx], R]) -> R:
    """The work in one transaction; without a twist, only if neither faults nor the log are on."""
    datacenter = account.datacenter
    with datacenter.store.writing() if writes else datacenter.store.reading() as db:
        if twist is None:
            switches = calls.switches(db)
            if switches.log or switches.faults:
                raise _Watched(switches)
        tx = Tx(db, account.name, datacenter.clock(), datacenter.ids, twist or STRAIGHT)
        answer = work(tx)
    if tx.answer_after_s:
        datacenter.sleep(tx.answer_after_s)
    return answer


def _answer_lost(method: str) -> AnswerLost:
    return AnswerLost(
        f"the answer of {method} was lost",
        changing=METHODS[method],
        why="the call timed out",
        remedy="look for what it may have made before repeating it",
    )


def _longest(active: list[Fault], mode: str) -> float:
    return max((fault.ms or 0 for fault in active if fault.mode == mode), default=0) / 1000


def _subject(db: sqlite3.Connection, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The text that a fault's `match` is compared with: the call's arguments for its object, or the object itself."""
    words = [str(kwargs.get("name", "")), *map(str, (kwargs.get("tags") or {}).values())]
    if args and isinstance(args[0], str):
        words += [args[0], *_words_of(db, args[0])]
    return "\n".join(words)


def _words_of(db: sqlite3.Connection, wanted: str) -> list[str]:
    rows = db.execute(
        "SELECT name FROM objects WHERE id = ?1 UNION ALL "
        "SELECT value FROM tags WHERE object = (SELECT seq FROM objects WHERE id = ?1)",
        (wanted,),
    )
    return [str(row[0]) for row in rows]
