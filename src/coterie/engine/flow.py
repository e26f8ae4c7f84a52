"""What a flow is: a class whose methods are the labels of a step. It ends in one of next, wait, done, skip, fail.

A label makes at most one call that may not be repeated blindly; the intent behind that call was committed by the
label before it. Nothing is written to the ledger by a label: it collects writes, which commit with its move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from coterie.cpi.contract import Cpi
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.ledger.work.steps import Claim
from coterie.ledger.writes import Write


@dataclass(frozen=True, slots=True)
class Next:
    """Commit, then go on with another label at once."""

    label: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Commit, rest, and look again at the same label (or another)."""

    seconds: float
    why: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Commit; the step has reached its end."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Commit; the step is left out, for something else that went wrong, and was told, stands before it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Commit; the step ends here for a reason that a person should read."""

    error: CoterieError


Move = Next | Wait | Done | Skip | Fail


@dataclass(slots=True)
class Work:
    """What a label is given: the claim, the cloud behind a fence, and a place to collect what it changes."""

    claim: Claim
    cpi: Cpi
    ledger: Ledger
    ids: Ids
    director_uuid: str
    store: str  # folder of the Director's stemcell images
    data: dict[str, Any]
    memory: dict[Any, Any]  # shared by the steps of one task in this process
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def moment(self) -> float:
        """The database's time now."""
        with self.ledger.read() as tx:
            return time(tx)

    def recall(self, key: Any, read: Callable[[], str | None]) -> str | None:
        """What was read once and holds for the whole task; nothing found is asked for again."""
        if key not in self.memory:
            found = read()
            if found is None:
                return None
            self.memory[key] = found
        value: str = self.memory[key]
        return value

    def write(self, *changes: Write) -> None:
        self.writes.extend(changes)

    def say(self, kind: str, body: str, **data: Any) -> None:
        self.events.append(Event(self.claim.task, kind, self.claim.subject, body, data or None))


class Flow:
    """One workflow. `name` is stored in the steps table: a release that does not know it leaves the step alone."""

    name: ClassVar[str]

    def label(self, name: str) -> Callable[[Work], Move]:
        found: Callable[[Work], Move] = getattr(self, name)
        return found

    def failed(self, work: Work, error: CoterieError) -> None:
        """Write what a failure means for the thing that was worked on. The default: nothing but the step's error."""


Flows = Mapping[str, Flow]
