"""Where a conductor stands in the fleet: its share of the work, computed anew when somebody has joined or left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.ledger.store import Tx
from coterie.ledger.work import conductors
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.telemetry.process import RING_CHANGES


class Place(NamedTuple):
    seen: tuple[Any, ...]  # the fleet's fingerprint that this was computed for
    share: Share
    claims: Claims


class Standing:
    """Safe for many threads: each sees one whole place or the next."""

    def __init__(self, name: str, owner: str, flows: Iterable[str]) -> None:
        self._name = name
        self._owner = owner
        self._flows = tuple(flows)
        self._place: Place | None = None

    def now(self, tx: Tx) -> Place:
        seen = conductors.fingerprint(tx)
        place = self._place
        if place is None or place.seen != seen:
            if place is not None:
                RING_CHANGES.add()
            share = Share(conductors.fleet(tx), self._name)
            place = self._place = Place(seen, share, Claims(share, self._owner, self._flows))
        return place
