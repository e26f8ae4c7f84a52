"""Claims of a conductor that is alone in its fleet, for tests that are not about sharing."""

from __future__ import annotations

from coterie.ledger.store import Tx
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.ledger.work.steps import Claim
from coterie.ring.members import Member
from coterie.ring.owner import Fleet

SHARE = Share(Fleet([Member("only", drivers=frozenset({"sandbox"}), every_group=True)]), "only")


def claim(tx: Tx, limit: int = 100, *, owner: str = "a#1", flow: str = "flow") -> list[Claim]:
    return Claims(SHARE, owner, (flow,)).claim(tx, limit)
