"""Which requests may be done again after a core process died over them, without knowing how far it came."""

from __future__ import annotations

from coterie.cpi.contract import OutcomeUnknown
from coterie.cpi.wire import METHODS, Method
from coterie.cpi.wire.envelope import failure
from coterie.cpi.wire.faults import wire_error
from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads


def refuse_repeat(request: bytes) -> bytes | None:
    """The envelope that says so, if doing it again could make a second object; None if it may be repeated."""
    try:
        document = loads(request)
    except Mismatch:
        return None
    method = METHODS.get(str(document.get("method"))) if isinstance(document, dict) else None
    if method is None or _repeatable(method):
        return None
    lost = OutcomeUnknown(
        f"{method.name} may or may not have been done",
        why="the core process died while it worked on it",
        remedy="call again; what the lost call made is found by its mark and removed by `coterie-cpi cleanup`",
        retryable=False,
    )
    return failure(wire_error(lost, method.name), "")


def _repeatable(method: Method[object]) -> bool:
    # A second create_vm finds the first by its agent_id; the other marked creates would make a second object.
    return method.marks is None or method.name == "create_vm"
