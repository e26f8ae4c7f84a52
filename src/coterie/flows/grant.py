"""Rights of a cloud's user: the driver makes or renews the role and gives it."""

from __future__ import annotations

from typing import ClassVar

from coterie.engine.flow import Done, Flow, Move, Work


class Grant(Flow):
    """data: user, groups. Repeatable; taking rights away is the cloud's administrator's business."""

    name: ClassVar[str] = "cloud.grant"

    def begin(self, work: Work) -> Move:
        for line in work.cpi.grant(work.data["user"], groups=work.data["groups"]):
            work.say("cloud.granted", line)
        return Done()
