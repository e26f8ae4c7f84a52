"""Why a key has no conductor: one error per cause, each with its remedy."""

from __future__ import annotations

from coterie.errors import Refused


class FleetEmpty(Refused):
    """No conductor is alive at all."""

    code, status, retryable = "no_conductors", 503, True

    def __init__(self) -> None:
        super().__init__(
            "no conductor is alive", remedy="start one: coterie conductor --database URL; see `coterie conductors`"
        )


class GroupUnserved(Refused):
    """Conductors are alive, but none of this group has this driver."""

    code, retryable = "no_conductor_in_group", True

    def __init__(self, group: str, driver: str | None) -> None:
        where = f"in group {group!r}" if group else "without a group"
        flag = f" --group {group}" if group else ""
        super().__init__(
            f"no live conductor {where} for driver {driver}",
            remedy=f"start one: coterie conductor{flag} --drivers {driver}; see `coterie conductors groups`",
        )


class DriverUnserved(Refused):
    """Groups do not count yet, and no conductor of the fleet has this driver."""

    code, retryable = "no_conductor_for_driver", True

    def __init__(self, driver: str | None) -> None:
        super().__init__(
            f"no live conductor for driver {driver}",
            remedy=f"start one: coterie conductor --drivers {driver}; see `coterie conductors`",
        )
