"""Rights of a cloud's user: the driver makes or renews the role and gives it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.engine.flow import Done, Flow, Move, NoProgress, Work


@dataclass(frozen=True, slots=True)
class Grant:
    """Repeatable. Taking rights away is left to the cloud's administrator. `groups`: rights on server groups too."""

    user: str
    groups: bool


def _grant(work: Work[Grant, NoProgress]) -> Move:
    for line in work.cpi.grant(work.params.user, groups=work.params.groups):
        work.say("cloud.granted", line)
    return Done()


GRANT = Flow("cloud.grant", Grant, NoProgress, {"begin": _grant})
