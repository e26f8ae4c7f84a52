"""Who counts, of several that were made under one mark by calls that are no jobs: the first that is tagged.

Tagging is a job, its uuid follows from the mark, and CloudStack takes each uuid once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.cpi.contract import Mark
from coterie.cpi.drivers.cloudstack.marking import entries
from coterie.cpi.drivers.cloudstack.once import Once


class Election(Once):
    def elect(self, mark: Mark, kind: str, made: str, tags: Mapping[str, str], winner: Callable[[], str | None]) -> str:
        """The id of the one that counts: `made`, or that of another caller. `winner` looks for a tagged one."""
        started, known = self.started_once(
            mark,
            "createTags",
            lambda _: {"id": found} if (found := winner()) else None,
            resourceids=[made],
            resourcetype=kind,
            tags=entries(tags),
        )
        if known:
            return str(known["id"])
        self.api.wait("createTags", str((started or {})["jobid"]))
        return made
