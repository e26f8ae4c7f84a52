"""Making a thing once, though many try under one mark: a job's uuid follows from the mark, and CloudStack takes each
uuid once. A job that failed, or whose thing is gone again, is left behind and the next uuid is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.cpi.contract import CpiError, Mark
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.cloud import CloudstackCloud
from coterie.cpi.drivers.cloudstack.marking import job_id
from coterie.cpi.drivers.cloudstack.refusals import Refusal

_ATTEMPTS = 20
_NOT_TAKEN = {401, 429, 432, 531}  # refused at the door


class Once(CloudstackCloud):
    def started_once(
        self, mark: Mark, command: str, look: Callable[[str], Row | None], **parameters: Any
    ) -> tuple[Row | None, Row | None]:
        """(what we started, None), or (None, the thing that somebody else started under this mark)."""
        for attempt in range(_ATTEMPTS):
            wanted = job_id(mark, command, attempt)
            try:
                return self.api.start(command, job=wanted, **parameters), None
            except Refusal as error:
                # whatever the words, a job with our uuid is at work: somebody's, or ours in spite of the error
                known = self.job(wanted) if error.code not in _NOT_TAKEN else None
                if known is None:
                    raise
            found = self._followed(command, wanted, known, look)
            if found:
                return None, found
        raise CpiError(
            f"{command} came to nothing {_ATTEMPTS} times under one mark",
            why=f"mark {mark.intent}",
            remedy="look at CloudStack's jobs for the reason, then use a new mark",
        )

    def _followed(self, command: str, job: str, known: Row, look: Callable[[str], Row | None]) -> Row | None:
        """What another caller's job makes; None where it failed, or its thing is gone since."""
        try:
            self.api.wait(command, job)
        except Refusal:
            return None
        return look(str(known.get("jobinstanceid") or ""))
