"""Steps that were dropped half-way go back to the queue, but only while this conductor holds them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from coterie.conductor.workers import HandBackQueue, Watchdog
from coterie.ledger.store import Ledger
from coterie.ledger.tables import steps as steps_table
from coterie.ledger.work import steps
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.ledger.work.steps import Claim
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask, create
from coterie.ring.members import Member
from coterie.ring.owner import Fleet


def claim_one(ledger: Ledger) -> Claim:
    share = Share(Fleet([Member("me", every_group=True)]), "me")
    with ledger.write() as tx:
        create(tx, NewTask("t", "d", [NewStage("s", [NewStep("flow", "begin", "x", {})])]))
        (one,) = Claims(share, "me#1", ("flow",)).claim(tx, 1)
    return one


def state(ledger: Ledger) -> tuple[str, int]:
    with ledger.read() as tx:
        return tuple(tx.execute(sa.select(steps_table.c.state, steps_table.c.epoch)).one())


def test_a_queued_step_goes_back_under_a_new_epoch(ledger: Ledger) -> None:
    claim, hand_backs = claim_one(ledger), HandBackQueue(ledger, "me#1")
    hand_backs.add(claim)
    hand_backs.hand_back_all(())
    assert state(ledger) == ("ready", claim.epoch + 1)
    hand_backs.hand_back_all(())
    assert state(ledger) == ("ready", claim.epoch + 1)


def test_a_step_that_another_conductor_holds_is_left_alone(ledger: Ledger) -> None:
    claim, hand_backs = claim_one(ledger), HandBackQueue(ledger, "me#1")
    with ledger.write() as tx:
        steps.hand_back(tx, claim)
    hand_backs.add(claim)
    hand_backs.hand_back_all(())
    assert state(ledger) == ("ready", claim.epoch + 1)


def test_a_step_stays_queued_while_the_database_does_not_answer(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, hand_backs = claim_one(ledger), HandBackQueue(ledger, "me#1")
    hand_backs.add(claim)
    with monkeypatch.context() as broken:
        broken.setattr(steps, "hand_back", lambda *_: (_ for _ in ()).throw(RuntimeError("away")))
        with pytest.raises(RuntimeError):
            hand_backs.hand_back_all(())
    hand_backs.hand_back_all(())
    assert state(ledger)[0] == "ready"


def test_a_claim_whose_answer_was_lost_is_found_and_returned(ledger: Ledger) -> None:
    claim, hand_backs = claim_one(ledger), HandBackQueue(ledger, "me#1")
    hand_backs.hand_back_all(())
    assert state(ledger)[0] == "running"
    hand_backs.mark_uncertain()
    hand_backs.hand_back_all((claim.id,))
    assert state(ledger)[0] == "running"
    hand_backs.mark_uncertain()
    hand_backs.hand_back_all(())
    assert state(ledger) == ("ready", claim.epoch + 1)


def test_a_hung_step_is_tried_again_after_the_database_did_not_answer(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, replaced = claim_one(ledger), list[Claim]()
    watchdog = Watchdog(ledger, -1.0, replaced.append)
    watchdog.enter(claim)
    with monkeypatch.context() as broken:
        broken.setattr(steps, "hand_back", lambda *_: (_ for _ in ()).throw(RuntimeError("away")))
        with pytest.raises(RuntimeError):
            watchdog.look()
    assert replaced == []
    watchdog.look()
    assert replaced == [claim]
    assert state(ledger)[0] == "ready"
    assert watchdog.leave(claim)
