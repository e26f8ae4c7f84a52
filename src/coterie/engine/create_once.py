"""Creates a cloud object exactly once: the life of an intent, for every kind that has a ledger row.

A call under an intent is made only by the claim for which the intent is *clear*: the one that committed it, or the
one after an error which proved that nothing was made. Every other claim asks the cloud for the mark first, and calls
only to finish what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.cpi.contract import CloudObject, CpiError, Kind, Mark, OutcomeUnknown
from coterie.engine.flow import Fail, Move, Wait, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import objects

_POLL_S = 0.5
Call = Callable[[Mark], str]


@dataclass(frozen=True, slots=True)
class Landed:
    """The object is there. `reclaimed`: its creation was thought failed."""

    cid: str
    reclaimed: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing was made under this intent, and it is closed; a new try needs a new one."""


def clear(work: Work, intent: str) -> None:
    """Call in the label that commits the intent: no call has been made under it yet."""
    work.data["clear"] = [intent, work.claim.epoch]


def create_once(work: Work, kind: Kind, intent: str, call: Call) -> Landed | Lost | Move:
    if work.data.get("clear") == [intent, work.claim.epoch]:
        return _called(work, kind, intent, call)
    return resume(work, kind, intent, call)


def resume(work: Work, kind: Kind, intent: str, call: Call) -> Landed | Lost | Move:
    """Go on with a call whose answer we do not have. Whoever made what is found may have died before it was finished:
    by contract, a create under the mark of a thing that is there finishes it. A VM that is broken is taken as it is:
    its flow replaces it."""
    sought = _sought(work, kind, intent)
    if not isinstance(sought, CloudObject):
        return sought
    if kind == "vm" and sought.state == "error":
        return _landed(work, kind, intent, sought.cid, sought)
    return _called(work, kind, intent, call, sought)


def settle(work: Work, kind: Kind, intent: str) -> Landed | Lost | Move:
    """Find out what became of a call whose answer we do not have, to remove or keep what it made."""
    sought = _sought(work, kind, intent)
    return _landed(work, kind, intent, sought.cid, sought) if isinstance(sought, CloudObject) else sought


def _called(work: Work, kind: Kind, intent: str, call: Call, found: CloudObject | None = None) -> Landed | Lost | Move:
    try:
        cid = call(Mark(work.director_uuid, intent))
    except OutcomeUnknown as unknown:
        work.write(objects.record_unknown(intent))
        work.say("object.doubt", f"{unknown}: asking the cloud whether the {kind} is there")
        return Wait(_POLL_S, "the answer of the cloud was lost")
    except CpiError:
        # Any other error of the contract says that nothing was left behind: the next claim may call again.
        work.data["clear"] = [intent, work.claim.epoch + 1]
        raise
    return _landed(work, kind, intent, cid, found)


def _landed(work: Work, kind: Kind, intent: str, cid: str, found: CloudObject | None) -> Landed:
    work.write(objects.record_created(intent, cid))
    if found is not None:
        work.say("object.reclaimed", f"found the {kind} {cid} by its mark; it is used", cid=cid)
    return Landed(cid, reclaimed=found is not None)


def _sought(work: Work, kind: Kind, intent: str) -> CloudObject | Lost | Move:
    if not work.cpi.capabilities().finds:
        return Fail(_undecidable(work, kind, intent))
    found = work.cpi.find(kind, Mark(work.director_uuid, intent))
    if found is not None:
        return found
    with work.ledger.read() as tx:
        row = objects.get(tx, intent)
    if row is None or row.doubt_since is None:
        work.write(objects.record_unknown(intent))
        return Wait(_POLL_S, f"asking the cloud for a {kind} that may still turn up")
    left = row.doubt_since + work.cpi.capabilities().settle_s - work.moment
    if left > 0:
        return Wait(min(left, _POLL_S), f"asking the cloud for a {kind} that may still turn up")
    work.write(objects.record_gone(intent, tombstone=True))
    work.say("object.given_up", f"no {kind} with mark {intent} turned up; should it come later, it is an orphan")
    return Lost()


def close_failed(work: Work, intent: str) -> None:
    """In a flow's `failed`: the intent ends as gone if nothing can be there, else it stays unknown."""
    if work.data.get("clear") == [intent, work.claim.epoch + 1]:
        work.write(objects.record_gone(intent))
    else:
        work.write(objects.record_unknown(intent))


def _undecidable(work: Work, kind: Kind, intent: str) -> CoterieError:
    reason = work.cpi.capabilities().unsupported["find"]
    return CoterieError(
        f"whether the {kind} for {work.claim.subject} was made is unknown",
        why=f"the answer was lost, and this cloud cannot be asked: {reason.why}",
        remedy=f"look in the cloud, then run: coterie nodes settle {intent} --cid CID, or --gone if it is not there",
        details={"intent": intent},
    )
