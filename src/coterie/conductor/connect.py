"""Opens the ledger for a service: what is wrong is told without the password, and a clock that is off is refused."""

from __future__ import annotations

import time
from collections.abc import Callable

from coterie.errors import CoterieError, Refused, Unreachable
from coterie.ledger.errors import BadUrl, NotPermitted, Unavailable, reason
from coterie.ledger.store import Ledger
from coterie.ledger.store import time as database_time
from coterie.settings import veiled

_TOLERANCE_S = 30.0


class ClockOff(CoterieError):
    """This machine and the database disagree about the time."""

    code, exit_code = "clock_off", 4


def connect(url: str) -> Ledger:
    try:
        return Ledger.open(url)
    except (Unavailable, BadUrl) as error:
        raise Unreachable(
            f"cannot open the ledger {veiled(url)}",
            why=veiled(reason(error)),
            remedy="check that the database runs, and its URL: --database or COTERIE_DATABASE",
        ) from error
    except NotPermitted as error:
        raise Refused(
            f"this role may not bring the ledger {veiled(url)} up to date",
            why=veiled(reason(error)),
            remedy="start the Director of this release first, then grant again: coterie conductors role NAME",
        ) from error


def check_clock(ledger: Ledger, clock: Callable[[], float] = time.time, tolerance_s: float = _TOLERANCE_S) -> None:
    """Leases run by the database's clock alone, but clouds refuse requests signed in another hour, and logs lie."""
    before = clock()
    with ledger.read() as tx:
        there = database_time(tx)
    # Only what the time of asking cannot explain counts.
    off = max(before - there, there - clock(), 0.0)
    if off > tolerance_s:
        raise ClockOff(
            f"the clock of this machine is {off:.0f} s off the database's",
            why=f"no more than {tolerance_s:.0f} s are tolerated",
            remedy="let both follow a time server (chrony, systemd-timesyncd), then start again",
        )
