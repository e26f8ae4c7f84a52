"""The record of changes: caller, request, address, time and outcome, as events of kind `audit`."""

from __future__ import annotations

import logging
from typing import Any

from coterie.director.access.caller import Caller
from coterie.ledger.errors import DatabaseError
from coterie.ledger.rows import events
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time

log = logging.getLogger(__name__)
KIND = "audit"


def write(
    ledger: Ledger, caller: Caller | None, peer: str, method: str, path: str, status: int, made: str | None
) -> None:
    """`made`: the answer's Location. The caller gets its answer even if the ledger cannot be written."""
    where = _printable(path)
    who = caller.name if caller else "unknown caller"
    data: dict[str, Any] = {
        "who": caller.name if caller else None,
        "role": caller.role if caller else None,
        "how": caller.how if caller else None,
        "credential": caller.detail or None if caller else None,
        "peer": peer or None,
        "method": method,
        "path": where,
        "status": status,
        "outcome": _outcome(status),
        "made": made,
    }
    body = f"{who}: {method} {_outcome(status)} ({status})" + (f", {made}" if made else "")
    try:
        with ledger.write_silently() as tx:
            events.append(tx, [Event(None, KIND, where, body, data)], time(tx))
    except DatabaseError:
        log.exception("could not record the request of %s: %s %s (%s)", who, method, where, status)


def _outcome(status: int) -> str:
    return "done" if status < 400 else "refused" if status < 500 else "failed"


def _printable(path: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in path[:255])
