"""Says, before an object is deleted, what goes with it."""

from __future__ import annotations

from typing import Any

from coterie.engine.flow import Work
from coterie.ledger.rows import parts


def announce_parts(work: Work[Any, Any], intent: str, what: str) -> None:
    """One event with the ids of the parts that were created with the object; none where it has none."""
    with work.ledger.read() as tx:
        beside = parts.list_of(tx, [intent]).get(intent, [])
    named = [f"{part.kind} {part.cid}" for part in beside if part.cid]
    if named:
        work.say("object.parts", f"with {what} go, unless they are used: {', '.join(named)}", parts=named)
