"""Creates a cloud object exactly once: the life of an intent, for every kind that has a ledger row.

A call under an intent is made only by the claim for which the intent is *clear*: the one that committed it, or the
one after an error which proved that nothing was made. Every other claim asks the cloud for the mark first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.cpi.contract import CpiError, Kind, Mark, OutcomeUnknown
from coterie.errors import CoterieError
from coterie.ledger import objects
from coterie.task.flow import Fail, Move, Wait, Work

_POLL_S = 0.5


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


def create_once(work: Work, kind: Kind, intent: str, call: Callable[[Mark], str]) -> Landed | Lost | Move:
    mark = Mark(work.director_uuid, intent)
    if work.data.get("clear") != [intent, work.claim.epoch]:
        return settle(work, kind, intent)
    try:
        cid = call(mark)
    except OutcomeUnknown as unknown:
        work.write(objects.doubted(intent))
        work.say("object.doubt", f"{unknown}: asking the cloud whether the {kind} is there")
        return Wait(_POLL_S, "the answer of the cloud was lost")
    except CpiError:
        # Any other error of the contract says that nothing was left behind: the next claim may call again.
        work.data["clear"] = [intent, work.claim.epoch + 1]
        raise
    work.write(objects.landed(intent, cid))
    return Landed(cid)


def settle(work: Work, kind: Kind, intent: str) -> Landed | Lost | Move:
    """Find out what became of a call whose answer we do not have."""
    if not work.cpi.capabilities().finds:
        return Fail(_undecidable(work, kind, intent))
    found = work.cpi.find(kind, Mark(work.director_uuid, intent))
    if found is not None:
        work.write(objects.landed(intent, found.cid))
        work.say("object.reclaimed", f"found the {kind} {found.cid} by its mark; it is used", cid=found.cid)
        return Landed(found.cid, reclaimed=True)
    with work.ledger.read() as tx:
        row = objects.get(tx, intent)
    if row is None or row.doubt_since is None:
        work.write(objects.doubted(intent))
        return Wait(_POLL_S, f"asking the cloud for a {kind} that may still turn up")
    left = row.doubt_since + work.cpi.capabilities().settle_s - work.moment
    if left > 0:
        return Wait(min(left, _POLL_S), f"asking the cloud for a {kind} that may still turn up")
    work.write(objects.gone(intent, tombstone=True))
    work.say("object.given_up", f"no {kind} with mark {intent} turned up; should it come later, it is an orphan")
    return Lost()


def close_failed(work: Work, intent: str) -> None:
    """In a flow's `failed`: the intent ends as gone if nothing can be there, else it stays unknown."""
    if work.data.get("clear") == [intent, work.claim.epoch + 1]:
        work.write(objects.gone(intent))
    else:
        work.write(objects.doubted(intent))


def _undecidable(work: Work, kind: Kind, intent: str) -> CoterieError:
    reason = work.cpi.capabilities().unsupported["find"]
    return CoterieError(
        f"whether the {kind} for {work.claim.subject} was made is unknown",
        why=f"the answer was lost, and this cloud cannot be asked: {reason.why}",
        remedy=f"look in the cloud, then run: coterie nodes settle {intent} --cid CID, or --gone if it is not there",
        details={"intent": intent},
    )
