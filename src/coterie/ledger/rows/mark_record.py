"""What the ledger knows of one mark: the evidence that a finding is made from. Plain data, no database."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cpi.contract import Kind


@dataclass(frozen=True, slots=True)
class Record:
    """The row behind an intent. `state` has the words of `tables.objects`, for server groups too.

    `user`: who of us needs it ("node web/0"), None when nobody does. `task`: the one at work on its deployment.
    """

    intent: str
    kind: Kind
    cloud: str
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    tombstone: bool
    user: str | None
    task: int | None
    vm_cid: str | None = None  # of the node that it belongs to
    node_state: str | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """The mark on an object that was seen unused: since when, by our clock."""

    cid: str
    created_at: float | None
    since: float
    doomed: bool
    pinned: bool
