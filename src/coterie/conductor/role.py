"""What a conductor is for: its group, its drivers, its weight on the ring. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.ring.hash import PROBED


@dataclass(frozen=True, slots=True)
class Post:
    """What a conductor is for. `group` None: every group that has no conductor of its own (embedded).

    `drivers` None: all that are installed. `pinned`: the release to behave as, during an upgrade.
    """

    group: str | None = None
    drivers: tuple[str, ...] | None = None
    weight: float = 1.0
    ring: str = PROBED
    pinned: str | None = None
