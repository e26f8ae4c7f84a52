"""Grace periods do not depend on a jump of one clock: the database's clock is compared with one of this machine that
only runs on, and what was marked before a jump is shifted by it."""

from __future__ import annotations

import logging
import time as machine
from pathlib import Path

from coterie.ledger.rows import clocks, deletion_candidates, events
from coterie.ledger.rows.clocks import Reading
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time

log = logging.getLogger(__name__)
_LEAST_S = 60.0  # less than this is the usual correction of a clock
_CLOCK = getattr(machine, "CLOCK_BOOTTIME", machine.CLOCK_MONOTONIC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def note_clock(ledger: Ledger, boot: str | None = None, running_s: float | None = None) -> float:
    """Seconds that the database's clock has jumped since the last note of this machine; 0.0: it has not.

    `boot`, `running_s`: which start of the machine this is, and how long it runs. A machine without such an id
    compares within one process only.
    """
    boot = boot or _read_boot_id()
    running_s = machine.clock_gettime(_CLOCK) if running_s is None else running_s
    with ledger.write_silently() as tx:
        now, before = time(tx), clocks.get(tx, boot)
        jump = (now - before.at) - (running_s - before.running_s) if before else 0.0
        if abs(jump) < _LEAST_S:
            clocks.put(tx, boot, Reading(running_s, now))
            return 0.0
        clocks.shift_all(tx, jump)
        clocks.put(tx, boot, Reading(running_s, now))
        deletion_candidates.shift_all(tx, jump)
        body = f"the database's clock jumped by {jump:.0f} s; grace periods and undo windows do not count it"
        events.append(tx, [Event(None, "clock.jumped", "database", body, {"seconds": jump})], now)
    log.warning("%s", body)
    return jump


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return _PROCESS


_PROCESS = f"process {machine.monotonic_ns()}"
