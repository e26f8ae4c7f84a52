"""What a flow is: named labels, each a function that runs a part of a step and ends in next, wait, done, skip or fail.

A label makes at most one call that may not be repeated blindly; the intent behind that call was committed by the
label before it. Nothing is written to the ledger by a label: it collects writes, which commit with its move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from coterie.cpi.contract import Cpi
from coterie.engine import stored
from coterie.engine.images import Images
from coterie.engine.secrets import SecretReader
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.ledger.work.steps import Claim
from coterie.ledger.work.tasks import NewStep
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
    """Commit; an earlier failure, already reported, makes this step impossible."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Commit; the step ends here for a reason that a person should read."""

    error: CoterieError


Move = Next | Wait | Done | Skip | Fail


Params = TypeVar("Params", covariant=True)  # what the step is to do: a frozen dataclass
Progress = TypeVar("Progress", covariant=True)  # how far it has come: a dataclass that its labels change


@dataclass(frozen=True, slots=True)
class NoProgress:
    """Of a flow that remembers nothing between its labels."""


@dataclass(slots=True)
class Work(Generic[Params, Progress]):
    """What a label is given: the claim, the cloud behind a fence, and lists that collect what it changes."""

    claim: Claim
    cpi: Cpi
    ledger: Ledger
    ids: Ids
    director_uuid: str
    images: Images  # of stemcells
    params: Params
    progress: Progress
    memory: dict[Any, Any]  # shared by the steps of one task in this process
    secrets: SecretReader
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def moment(self) -> float:
        """The database's time now."""
        with self.ledger.read() as tx:
            return time(tx)

    @property
    def node(self) -> str:
        """The uuid of the node that the step is about."""
        if self.claim.node is None:
            raise CoterieError(f"step {self.claim.id} names no node")
        return self.claim.node

    @property
    def cloud(self) -> str:
        return self.claim.cloud or ""

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

    def data(self) -> dict[str, Any]:
        """The stored form."""
        return stored.store(self.params, self.progress)


def _fail_nothing(work: Work[Any, Any], error: CoterieError) -> None:
    """A failure means nothing beyond the step's own error."""


@dataclass(frozen=True, slots=True)
class Flow(Generic[Params, Progress]):
    """One workflow. `name` and the names of its labels are stored in the steps table.

    A release that does not know a flow leaves its steps alone. `on_failure` writes what a failure means for the
    object that the step works on.
    """

    name: str
    params: type[Params]
    progress: type[Progress]
    labels: Mapping[str, Callable[[Work[Params, Progress]], Move]]
    on_failure: Callable[[Work[Params, Progress], CoterieError], None] = _fail_nothing

    def read(self, signed: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[Params, Progress]:
        """`signed`: the part of the data that a Director has signed; what the step is to do is read from that alone."""
        return stored.read(self.params, signed), stored.read(self.progress, data)

    def step(
        self,
        params: Params,  # type: ignore[misc]  # only read: a step of a narrower flow is one of this flow
        subject: str,
        cloud: CloudRow,
        *,
        node: str | None = None,
        group: str | None = None,
        progress: Progress | None = None,
    ) -> NewStep:
        """`group`: the conductor group, if it is not the cloud's."""
        return NewStep(
            flow=self.name,
            label="begin",
            subject=subject,
            data=stored.store(params, progress if progress is not None else self.progress()),
            node=node,
            cloud=cloud.name,
            driver=cloud.driver,
            conductor_group=cloud.conductor_group if group is None else group,
            signed=stored.keys_of(self.params),
        )


Flows = Mapping[str, Flow[Any, Any]]


def by_name(*flows: Flow[Any, Any]) -> dict[str, Flow[Any, Any]]:
    return {flow.name: flow for flow in flows}
