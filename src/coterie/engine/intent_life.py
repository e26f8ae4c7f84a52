"""Creates a cloud object exactly once: the life of an intent, for every kind that has a ledger row.

A call under an intent is made only by the claim that knows the intent to be *uncalled*: the one that committed it, or
the one after an error which proved that nothing was made. Every other claim first looks in the cloud for the mark, and
calls only to finish what it finds; or, where the cloud takes a token with the call, to have the token's object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coterie.cpi.contract import CloudObject, CpiError, Kind, Mark, OutcomeUnknown, Throttled, Unavailable
from coterie.engine.flow import Fail, Move, Wait, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import objects

_POLL_S = 0.5
Call = Callable[[Mark], str]


@dataclass(frozen=True, slots=True)
class Uncalled:
    """Nothing was made under this intent, as far as the claim with this epoch knows."""

    intent: str
    epoch: int

    @staticmethod
    def of_wire(value: Sequence[Any]) -> Uncalled:
        return Uncalled(*value)

    def wire(self) -> list[Any]:
        return [self.intent, self.epoch]


class Creating(Protocol):
    """Progress of a flow that creates objects. The field is stored as `clear`."""

    uncalled: Uncalled | None


@dataclass(frozen=True, slots=True)
class Created:
    """The object is there."""

    cid: str


@dataclass(frozen=True, slots=True)
class NotCreated:
    """Nothing was made under this intent, and it is closed; a new try needs a new one."""


def note_uncalled(work: Work[Any, Creating], intent: str) -> None:
    """Call in the label that commits the intent: no call has been made under it yet."""
    work.progress.uncalled = Uncalled(intent, work.claim.epoch)


def is_uncalled(work: Work[Any, Creating], intent: str) -> bool:
    """Whether this claim knows that no call has been made under the intent."""
    return work.progress.uncalled == Uncalled(intent, work.claim.epoch)


def note_uncalled_for_next_claim(work: Work[Any, Creating], intent: str) -> None:
    """For a label that rests or fails before its call."""
    work.progress.uncalled = Uncalled(intent, work.claim.epoch + 1)


def is_uncalled_after_failure(work: Work[Any, Creating], intent: str) -> bool:
    """Whether the error that has just ended the step proved that nothing was made."""
    return work.progress.uncalled == Uncalled(intent, work.claim.epoch + 1)


def create_or_resume(work: Work[Any, Creating], kind: Kind, intent: str, call: Call) -> Created | NotCreated | Move:
    if is_uncalled(work, intent):
        return _call(work, kind, intent, call)
    return resume_create(work, kind, intent, call)


def resume_create(work: Work[Any, Creating], kind: Kind, intent: str, call: Call) -> Created | NotCreated | Move:
    """Go on after a call whose answer is lost. What it made may be half-made: by contract, a create under the mark of
    an object that is there finishes it. A broken VM is taken as it is: its flow replaces it."""
    look = _look(work, kind, intent)
    if look is None and kind in work.cpi.capabilities().client_tokens and not _has_settled(work, intent):
        return _call(work, kind, intent, call)
    found = look or _wait_or_give_up(work, kind, intent)
    if not isinstance(found, CloudObject):
        return found
    if kind == "vm" and found.state == "error":
        return _record(work, kind, intent, found.cid, found)
    return _call(work, kind, intent, call, found)


def find_created(work: Work[Any, Any], kind: Kind, intent: str) -> Created | NotCreated | Move:
    """Find out what became of a call whose answer is lost, to remove or keep what it made."""
    found = _find(work, kind, intent)
    return _record(work, kind, intent, found.cid, found) if isinstance(found, CloudObject) else found


def close_failed_intent(work: Work[Any, Creating], intent: str) -> None:
    """For a flow's `on_failure`: the intent ends as gone if nothing can be there, else it stays unknown."""
    if is_uncalled_after_failure(work, intent):
        work.write(objects.record_gone(intent))
    else:
        work.write(objects.record_unknown(intent))


def _call(
    work: Work[Any, Creating], kind: Kind, intent: str, call: Call, found: CloudObject | None = None
) -> Created | NotCreated | Move:
    try:
        cid = call(Mark(work.director_uuid, intent))
    except OutcomeUnknown as unknown:
        if not unknown.retryable:
            raise  # a look would find the object, and the next call fail in the same way; the intent stays unknown
        work.write(objects.record_unknown(intent))
        work.say("object.doubt", f"{unknown}: looking in the cloud for the {kind}")
        return Wait(_POLL_S, "the answer of the cloud was lost")
    except CpiError as error:
        # By contract any other error left nothing behind: the next claim may call again. But that the cloud did not
        # take a repeat says nothing about the first call.
        if is_uncalled(work, intent) or not isinstance(error, (Throttled, Unavailable)):
            note_uncalled_for_next_claim(work, intent)
        raise
    return _record(work, kind, intent, cid, found)


def _record(work: Work[Any, Any], kind: Kind, intent: str, cid: str, found: CloudObject | None) -> Created:
    work.write(objects.record_created(intent, cid))
    if found is not None:
        work.say("object.reclaimed", f"found the {kind} {cid} by its mark; it is used", cid=cid)
    return Created(cid)


def _find(work: Work[Any, Any], kind: Kind, intent: str) -> CloudObject | NotCreated | Move:
    return _look(work, kind, intent) or _wait_or_give_up(work, kind, intent)


def _look(work: Work[Any, Any], kind: Kind, intent: str) -> CloudObject | Move | None:
    if not work.cpi.capabilities().finds:
        return Fail(_undecidable(work, kind, intent))
    return work.cpi.find(kind, Mark(work.director_uuid, intent))


def _wait_or_give_up(work: Work[Any, Any], kind: Kind, intent: str) -> NotCreated | Move:
    left = _time_to_settle(work, intent)
    if left is None:
        work.write(objects.record_unknown(intent))
    if left is None or left > 0:
        return Wait(_POLL_S if left is None else min(left, _POLL_S), f"looking for a {kind} that may still turn up")
    work.write(objects.give_up(intent))
    work.say("object.given_up", f"no {kind} with mark {intent} turned up; should it come later, it is an orphan")
    return NotCreated()


def _time_to_settle(work: Work[Any, Any], intent: str) -> float | None:
    """Seconds until an object under this intent turns up no more; None: the doubt begins now."""
    with work.ledger.read() as tx:
        row = objects.get(tx, intent)
    if row is None or row.doubt_since is None:
        return None
    return row.doubt_since + work.cpi.capabilities().settle_s - work.moment


def _has_settled(work: Work[Any, Any], intent: str) -> bool:
    left = _time_to_settle(work, intent)
    return left is not None and left <= 0


def _undecidable(work: Work[Any, Any], kind: Kind, intent: str) -> CoterieError:
    reason = work.cpi.capabilities().unsupported["find"]
    return CoterieError(
        f"whether the {kind} for {work.claim.subject} was made is unknown",
        why=f"the answer was lost, and this cloud cannot be asked: {reason.why}",
        remedy=f"look in the cloud, then run: coterie nodes settle {intent} --cid CID, or --gone if it is not there",
        details={"intent": intent},
    )
