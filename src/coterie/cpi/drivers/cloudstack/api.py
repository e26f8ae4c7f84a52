"""CloudStack's API: one call, one job, one list. What commands and fields mean is known elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.cpi.contract import CpiError, OutcomeUnknown, Unavailable
from coterie.cpi.drivers.cloudstack.link import Link
from coterie.cpi.drivers.cloudstack.properties import Settings
from coterie.cpi.drivers.cloudstack.refusals import Refusal, refusal
from coterie.cpi.drivers.cloudstack.signer import signed

Row = dict[str, Any]
_GOOD_FOR_S = 600.0
_SLOWEST_POLL_S = 5.0
_THROTTLED = 429
_PATIENCE = 5  # how often a question that was throttled is asked again
PENDING, SUCCEEDED, FAILED = 0, 1, 2


class Api:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._link = Link(settings)
        self.calls = 0

    def call(self, command: str, **parameters: Any) -> Row:
        """What is inside the answer's envelope, whose name nobody can know."""
        asks = command.startswith(("list", "query"))
        for wait in range(_PATIENCE if asks else 1):
            try:
                return self._once(command, parameters, changes=not asks)
            except Refusal as error:
                if error.code != _THROTTLED or wait == _PATIENCE - 1 or not asks:
                    raise
                time.sleep(self._settings.poll_s * 2**wait)
        raise AssertionError("the last try answers or raises")

    def start(self, command: str, job: str | None = None, **parameters: Any) -> Row:
        """Begin a job: its `jobid`, and the new object's `id` where one is made. `job`: its uuid, chosen by us."""
        return self.call(command, **parameters, **({"customjobid": job} if job else {}))

    def run(self, command: str, limit_s: float | None = None, **parameters: Any) -> Row:
        """A job from its beginning to its end: its result."""
        started = self.start(command, **parameters)
        return self.wait(command, str(started["jobid"]), limit_s)

    def wait(self, command: str, job: str, limit_s: float | None = None) -> Row:
        """The result of a job, once it has one; what it was refused with is raised."""
        limit = self._settings.state_timeout if limit_s is None else limit_s
        deadline, rest = time.monotonic() + limit, self._settings.poll_s
        while True:
            found = self._asked_after(job, deadline)
            if found["jobstatus"] == SUCCEEDED:
                result: Row = found.get("jobresult") or {}
                return result
            if found["jobstatus"] == FAILED:
                raise refusal(command, found.get("jobresult") or {}, 530)
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"{command} did not end within {limit:.0f} s",
                    why=f"job {job} is still running",
                    remedy="raise properties.state_timeout, or look at the job in CloudStack",
                )
            time.sleep(min(rest, max(deadline - time.monotonic(), 0.0)))  # the last look is at the deadline
            rest = min(rest * 1.5, _SLOWEST_POLL_S)

    def _asked_after(self, job: str, deadline: float) -> Row:
        """The job goes on whether we reach the server or not: only its end, or the deadline, ends the wait."""
        try:
            return self.call("queryAsyncJobResult", jobid=job)
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            return {"jobstatus": PENDING}

    def page(self, command: str, number: int, **parameters: Any) -> tuple[list[Row], int]:
        """One page, numbered from 1, and how long the whole list is."""
        answer = self.call(command, page=number, pagesize=self._settings.page_size, **parameters)
        rows = next((value for value in answer.values() if isinstance(value, list)), [])
        return rows, int(answer.get("count", len(rows)))

    def every(self, command: str, **parameters: Any) -> Iterator[Row]:
        """A whole list; without pages, the vendor would end it at 500 without a word."""
        number = 1
        while True:
            rows, _ = self.page(command, number, **parameters)
            yield from rows
            if len(rows) < self._settings.page_size:
                return
            number += 1

    def _once(self, command: str, parameters: Mapping[str, Any], *, changes: bool) -> Row:
        self.calls += 1
        settings = self._settings
        flat = {"command": command, **_flat(parameters)}
        body = signed(flat, settings.api_key, settings.secret_access_key, time.time() + _GOOD_FOR_S)
        status, raw = self._link.post(body, changes=changes)
        answer = _inside(raw)
        if answer is None:
            raise _no_api(command, status, changes)
        if status != 200 or "errorcode" in answer:
            raise refusal(command, answer, status)
        return answer


def _flat(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as texts: lists with commas, maps as name[i].key; None is left out."""
    found: dict[str, str] = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
            for index, entry in enumerate(value):
                found.update({f"{name}[{index}].{key}": str(one) for key, one in entry.items()})
        elif isinstance(value, (list, tuple)):
            found[name] = ",".join(map(str, value))
        else:
            found[name] = str(value)
    return found


def _inside(raw: bytes) -> Row | None:
    try:
        document = json.loads(raw)
    except ValueError:
        return None
    inside = next(iter(document.values()), None) if isinstance(document, dict) and len(document) == 1 else None
    return inside if isinstance(inside, dict) else None


def _no_api(command: str, status: int, changes: bool) -> CpiError:
    """Something that is not CloudStack answered: a proxy, a balancer, a wrong endpoint."""
    what, why = f"{command} got no answer of CloudStack's", f"HTTP {status} without its JSON"
    if status == 503 or not changes:
        return Unavailable(what, why=why, remedy="check properties.endpoint and what stands before CloudStack")
    if status in (502, 504):
        return OutcomeUnknown(what, why=why, remedy="look for what it may have made before repeating it")
    return CpiError(what, why=why, remedy="check properties.endpoint: it ends in /client/api")
