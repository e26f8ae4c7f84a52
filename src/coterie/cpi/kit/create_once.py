"""Creating a thing once, though several calls, or a repeated one, try it under one mark. Three strategies:

- `create_with_id`: the cloud takes an id that the caller chooses, each once (an image's id, a client token);
- `start_with_job_id`: the cloud takes the id of the job that creates, each once;
- `SingleWriter`: the cloud takes any number of equal things, so one writer at a time looks and creates, through the
  runtime's coordinator; `create_if_absent` is that look, and keeps the oldest if there are two all the same.

`wait_or_remove` ends each of them: what cannot be made ready is removed, or its outcome stays unknown.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from coterie.clock import running_on
from coterie.cpi.contract import Coordinator, Cpi, CpiError, Json, Mark, OutcomeUnknown, revive
from coterie.slotted import dataclass, field

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
_ATTEMPTS = 20
_DOMAINS = 32
_BATCH_S = 3.0


# -- ids that the caller chooses --


def chosen_ids(space: uuid.UUID, mark: Mark, purpose: str = "") -> Iterator[str]:
    """The ids that follow from a mark. Each is good for one try: what came to nothing under one is left behind, and
    the next is used."""
    stem = f"{mark.director}/{mark.intent}" + (f"/{purpose}" if purpose else "")
    return (str(uuid.uuid5(space, f"{stem}/{attempt}")) for attempt in range(_ATTEMPTS))


def create_with_id(ids: Iterable[str], create: Callable[[str], T | None], what: str) -> T:
    """What `create` answers for the first id that is good. `create` makes the thing, or follows what another call began
    under the id; None: what was there is gone, and the cloud takes the id no second time."""
    for one in ids:
        found = create(one)
        if found is not None:
            return found
    raise _exhausted_error(what)


def start_with_job_id(
    ids: Iterable[str],
    start: Callable[[str], T],
    follow: Callable[[str, Exception], T | None],
    refusal: type[Exception],
    what: str,
) -> tuple[T, bool]:
    """What `start` began, and True; or what another call's job made, and False. After a refusal of `start`,
    `follow(job, error)` waits for the job that has the id already: what it made, or None where that is gone, so that
    the next id is tried. It raises `error` where no job has the id: then the refusal was about something else."""
    for one in ids:
        try:
            return start(one), True
        except refusal as error:
            found = follow(one, error)
        if found is not None:
            return found, False
    raise _exhausted_error(what)


def _exhausted_error(what: str) -> CpiError:
    return CpiError(
        f"{what} came to nothing {_ATTEMPTS} times under one mark",
        remedy="look for the reason in the cloud's log, then use a new mark",
    )


# -- one writer at a time --


@dataclass(frozen=True, slots=True)
class Created:
    """`new`: whether this very call created it. `asked_at`: when the change was submitted that came to this, by
    `running_on`."""

    cid: str
    new: bool
    asked_at: float = field(default=0.0, compare=False)

    def outcome(self) -> Json:
        return {"id": self.cid, "made": self.new}


Hold = Callable[[], None]
"""To be called right before each write: reading may have taken longer than the writer's lease."""
Handler = Callable[[Json, Hold], Created]
"""Applies one change as the only writer of its domain."""
BatchHandler = Callable[[Sequence[Json]], Sequence[Created | CpiError]]
_LATER = {"ok": False, "later": True}


class SingleWriter(Generic[E]):
    """Hands changes to the coordinator, and applies those that come back from it.

    A change is `{"kind": …}` and whatever its handler needs; it waits in the ledger, so it must hold no secret. The
    driver's own method `apply` calls `apply` with its table of handlers, kind → handler. `refusal` is what the cloud
    answers inside the driver, `translate` says the same in words of the contract.
    """

    def __init__(
        self,
        cpi: Cpi,
        driver: str,
        coordinator: Coordinator,
        settle_s: float,
        refusal: type[E],
        translate: Callable[[E], CpiError],
    ) -> None:
        self._cpi = cpi
        self._driver = driver
        self._coordinator = coordinator
        self._settle_s = settle_s
        self._refusal = refusal
        self._translate = translate

    def submit(self, purpose: str, key: str, change: Json) -> Created:
        """What came of the change. Changes of one key are applied one after the other; keys share a few domains, since
        the coordinator keeps every domain for good."""
        domain = f"{self._driver}:{self._cpi.cloud}/{purpose}/{zlib.crc32(key.encode()) % _DOMAINS}"
        outcome: Json = {"later": True}
        while outcome.get("later"):
            asked_at, lasts_s = running_on(), self._settle_s / 2
            until = time.time() + lasts_s  # for conductors of release 0.1.0, which may hold the domain
            outcome = self._coordinator.submit(self._cpi, domain, {**change, "lasts_s": lasts_s, "until": until})
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})
        return Created(str(outcome["id"]), bool(outcome["made"]), asked_at)

    def apply(self, handlers: Mapping[str, Handler], domain: str, changes: Sequence[Json]) -> list[Json]:
        """One outcome for each change. Submitters read the outcomes only when the whole batch is done, and the lease is
        short: after some seconds the remaining changes get the outcome `later` and are submitted again. So is a change
        that waited too long: its submitter may be dead, or may have given it up."""
        began = running_on()
        outcomes = []
        for change in changes:
            taken = running_on() - began
            if taken < _BATCH_S and _is_in_time(change, taken):
                outcomes.append(self._apply_one(handlers[change["kind"]], domain, change))
            else:
                outcomes.append(dict(_LATER))
        return outcomes

    def apply_together(self, handler: BatchHandler, changes: Sequence[Json]) -> list[Json]:
        """The same where one handler takes all changes at once. It writes to the ledger only, so it holds no lease: it
        counts for nothing once the domain is another's."""
        in_time = [_is_in_time(change) for change in changes]
        answers = iter(handler([change for change, is_in_time in zip(changes, in_time, strict=True) if is_in_time]))
        return [self._outcome(next(answers)) if is_in_time else dict(_LATER) for is_in_time in in_time]

    def _apply_one(self, handler: Handler, domain: str, change: Json) -> Json:
        try:
            return self._outcome(handler(change, lambda: self._coordinator.hold(domain)))
        except self._refusal as error:
            return self._outcome(self._translate(error))
        except CpiError as error:
            return self._outcome(error)

    def _outcome(self, answer: Created | CpiError) -> Json:
        if isinstance(answer, Created):
            return {"ok": True, **answer.outcome()}
        error = self._translate(answer) if isinstance(answer, self._refusal) else answer
        return {"ok": False, "error": error.facts()}


def _is_in_time(change: Json, taken_s: float = 0.0) -> bool:
    """Measured by the coordinator, since the clocks of two machines differ. One that does not tell has just begun.
    Conductors of release 0.1.0 wrote a moment of their own clock only."""
    if "lasts_s" not in change:
        return bool(time.time() < change["until"])
    return bool(change.get("waited_s", 0.0) + taken_s < change["lasts_s"])


def create_if_absent(
    find: Callable[[], Sequence[str]], create: Callable[[], str], remove: Callable[[str], None], hold: Hold
) -> Created:
    """For a handler. `find`: ids of the things that are it, the oldest first. A writer that was paused past its lease,
    or one of another ledger, may create a second one: the oldest stays, and the creator of the other removes it. Once
    something was created, no error may claim that nothing was done."""
    for one in find():
        return Created(one, False)
    hold()
    cid = create()
    try:
        first = next(iter(find()), cid)
    except CpiError as error:
        raise OutcomeUnknown(
            f"{cid} was created, and perhaps a second one by another call",
            why=str(error),
            remedy="look for it by its mark",
        ) from error
    if first != cid:
        _remove_second(cid, remove)
    return Created(first, first == cid)


def _remove_second(cid: str, remove: Callable[[str], None]) -> None:
    """One that the cloud refuses to remove stays, to be found by its mark."""
    try:
        remove(cid)
    except OutcomeUnknown:
        raise
    except CpiError:
        pass


# -- the end of a creation --


def wait_or_remove(wait: Callable[[], T], remove: Callable[[], None]) -> T:
    """What was created, once it is ready. One that cannot be made ready is removed; where that fails too, or time was
    too short, its outcome is unknown, never "nothing was done"."""
    try:
        return wait()
    except OutcomeUnknown:
        raise
    except Exception as error:
        try:
            remove()
        except Exception as trouble:
            raise OutcomeUnknown(
                "what was made is not ready and could not be removed",
                why=f"{error}; then {trouble}",
                remedy="look for it by its mark",
            ) from error
        if isinstance(error, OSError):
            raise CpiError(
                "what was begun could not be finished on this machine, and was removed",
                why=str(error),
                remedy="check the file or disk it names, then repeat",
            ) from error
        raise


def remove_half_made(error: CpiError, remove: Callable[[], object]) -> CpiError:
    """After a creation that is known to have failed: the error to raise, once what it may have made is gone."""
    try:
        remove()
    except CpiError as trouble:
        return OutcomeUnknown(
            f"{error.what}, and what it made could not be removed",
            why=f"{error}; then {trouble}",
            remedy="look for what it may have made before repeating it",
        )
    return error
