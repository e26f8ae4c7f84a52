"""Runs one label of a claimed step."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Throttled
from coterie.engine.flow import Done, Fail, Flow, Flows, Move, Next, Skip, Wait, Work
from coterie.engine.secrets import SecretReader
from coterie.engine.stored import StepTooNew
from coterie.errors import CoterieError, DeadlineExceeded, KeyMissing, LeaseLost
from coterie.ledger.errors import is_outage
from coterie.ledger.rows.events import Event
from coterie.ledger.work.steps import Claim, Outcome
from coterie.redact import KNOWN, Redactor, hide_in_error
from coterie.telemetry import trace
from coterie.telemetry.process import RETRIES

log = logging.getLogger(__name__)


class Runner:
    """Turns what labels return or raise into outcomes."""

    def __init__(
        self,
        flows: Flows,
        open_work: Callable[[Claim, Flow[Any, Any]], Work[Any, Any]],
        retry: Retry,
        secrets: SecretReader,
    ) -> None:
        self._flows = flows
        self._open_work = open_work
        self._retry = retry
        self._secrets = secrets
        self._chance = random.Random()
        self._reported: set[tuple[int, str | None]] = set()  # (task, cloud) whose events name what is missing

    def run(self, claim: Claim) -> Outcome:
        """Raises LeaseLost, an outage of the database (the step then goes back to the queue), and what is wrong with
        the flow itself. No outcome repeats a secret of the step."""
        document = self._with_secrets(claim)
        with KNOWN.hold(("step", claim.key), document):
            return self._run(claim, document)

    def _with_secrets(self, claim: Claim) -> Any:
        """What the step holds, with the sealed secrets of its node, too: none of them may be repeated."""
        name = (claim.data.get("wish") or {}).get("secret")
        found = self._secrets.find(name, claim.data["deployment"]) if name else None
        return claim.data if found is None else {"step": claim.data, **found.wire()}

    def _run(self, claim: Claim, document: Any) -> Outcome:
        flow, work = self._flows[claim.flow], None
        try:
            work = self._open_work(claim, flow)
            _check_deadline(claim)
            with trace.span(f"step {claim.flow}.{claim.label}", _about(claim), task=_task(work)) as said:
                made = _outcome(work, flow, flow.labels[claim.label](work), document)
                said["coterie.move"] = made.move
            return made
        except LeaseLost:
            raise
        except (KeyMissing, StepTooNew) as unable:
            return self._leave_to_another(claim, unable)
        except CoterieError as error:
            return self._failure(flow, claim, work, error, document)
        except Exception as error:
            if is_outage(error):
                raise
            log.exception("step %s of task %s broke in %s.%s", claim.id, claim.task, claim.flow, claim.label)
            unexpected = CoterieError(
                f"{claim.flow} broke at {claim.label}",
                why=f"unexpected {type(error).__name__}",
                remedy="this is a defect of Coterie or of the driver: see the log, and report it with `coterie doctor`",
            )
            return self._failure(flow, claim, work, unexpected, document)

    def _leave_to_another(self, claim: Claim, unable: CoterieError) -> Outcome:
        """This conductor lacks a key or is too old. A failure would end its whole share, with nodes half-way."""
        rest = self._retry.keyless_s
        outcome = Outcome(
            claim, "wait", claim.label, claim.data, attempt=claim.attempt, delay_s=rest, error=unable.facts()
        )
        if (claim.task, claim.cloud) not in self._reported:  # it may last for hours, and each of many steps comes here
            self._reported.add((claim.task, claim.cloud))
            kind = "step.keyless" if isinstance(unable, KeyMissing) else "step.too_new"
            _say(outcome, kind, f"{unable}; looking again every {rest:.0f} s", unable)
        return outcome

    def _failure(
        self, flow: Flow[Any, Any], claim: Claim, work: Work[Any, Any] | None, error: CoterieError, document: Any
    ) -> Outcome:
        hide_in_error(error, _redactor(claim, document))
        attempt = claim.attempt + 1
        delay = self._retry.delay(error, attempt, self._chance)
        if delay is not None:
            data = work.data() if work else claim.data
            outcome = Outcome(claim, "wait", claim.label, data, attempt=attempt, delay_s=delay, error=error.facts())
            RETRIES.add(claim.flow, error.code)
            _say(outcome, "step.retry", f"{error}; trying again in {delay:.1f} s", error)
            return outcome
        if work is None:
            return _fail(claim, claim.data, error)
        work.writes.clear()  # what the label meant to write once its call had succeeded
        work.events.clear()
        flow.on_failure(work, error)
        outcome = _fail(claim, work.data(), error)
        outcome.writes, outcome.events = work.writes, work.events + outcome.events
        return outcome


def _check_deadline(claim: Claim) -> None:
    if claim.time_left is not None and time.monotonic() - claim.claimed_at > claim.time_left:
        raise DeadlineExceeded(
            f"{claim.subject} did not get ready in time",
            why=f"its deadline passed while it was at {claim.label}",
            remedy="see the events of the task for what it waited for; deploy again to go on",
        )


def _task(work: Work[Any, Any]) -> str:
    return f"{work.director_uuid}:{work.claim.task}"


def _about(claim: Claim) -> dict[str, str | int]:
    return {
        "coterie.task": claim.task,
        "coterie.step": claim.id,
        "coterie.epoch": claim.epoch,
        "coterie.attempt": claim.attempt,
        "coterie.subject": claim.subject,
    }


def _outcome(work: Work[Any, Any], flow: Flow[Any, Any], move: Move, document: Any) -> Outcome:
    claim = work.claim
    match move:
        case Next(label):
            outcome = Outcome(claim, "next", label, work.data())
        case Wait(seconds, why, label):
            why = _redactor(claim, document).hide(why)
            outcome = Outcome(
                claim, "wait", label or claim.label, work.data(), delay_s=seconds, error={"code": "waiting", "why": why}
            )
        case Done():
            outcome = Outcome(claim, "done", claim.label, work.data())
        case Skip():
            outcome = Outcome(claim, "skip", claim.label, work.data())
        case Fail(error):
            hide_in_error(error, _redactor(claim, document))
            flow.on_failure(work, error)
            outcome = _fail(claim, work.data(), error)
    outcome.writes = work.writes
    outcome.events = work.events + outcome.events
    return outcome


def _redactor(claim: Claim, document: Any) -> Redactor:
    names = [name for name in (*claim.subject.split("/"), claim.cloud, claim.node) if name]
    return Redactor(document, public=names)


def _fail(claim: Claim, data: dict[str, Any], error: CoterieError) -> Outcome:
    outcome = Outcome(claim, "fail", claim.label, data, error=error.facts())
    _say(outcome, "step.failed", str(error), error)
    return outcome


def _say(outcome: Outcome, kind: str, body: str, error: CoterieError) -> None:
    outcome.events.append(Event(outcome.claim.task, kind, outcome.claim.subject, body, error.facts()))


@dataclass(frozen=True, slots=True)
class Retry:
    tries: int = 6
    busy_tries: int = 25  # of a cloud that says "not so fast": with these rests, more than ten minutes
    first_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 600.0  # for a cloud that asks for time
    keyless_s: float = 30.0  # between two looks for a key, which never end: a person has to bring it

    def delay(self, error: CoterieError, attempt: int, chance: random.Random) -> float | None:
        """Seconds to rest after the `attempt`-th failure (1, 2, …), or None when it is time to give up."""
        tries = max(self.tries, self.busy_tries) if isinstance(error, Throttled) else self.tries
        if not error.retryable or attempt >= tries:
            return None
        backoff = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + chance.random() / 2)
        asked = error.details.get("retry_after")
        least = float(asked) if isinstance(asked, int | float) else 0.0
        # a cloud that asks for little again and again gets more, and not from all conductors at once
        return max(backoff, min(self.longest_asked_s, least))
