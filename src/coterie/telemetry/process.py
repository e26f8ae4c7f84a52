"""The meters of this process: what a conductor does, counted where it happens, shown on the metrics page."""

from __future__ import annotations

from coterie import __version__
from coterie.telemetry.meters import Counter, Histogram, Meter, family, text

CPI_SECONDS = Histogram("coterie_cpi_call_seconds", "How long calls of clouds took.", ("driver", "method"))
CPI_ERRORS = Counter("coterie_cpi_errors_total", "Calls that failed, by our code.", ("driver", "method", "code"))
STEPS = Counter("coterie_step_moves_total", "Labels of steps that were committed, by what came next.", ("flow", "move"))
RETRIES = Counter("coterie_step_retries_total", "Labels that failed and are tried again.", ("flow", "code"))
LOSSES = Counter("coterie_lease_losses_total", "Leases lost: of a step, or of the whole conductor.", ("what",))
BEATS = Counter("coterie_heartbeats_total", "Heartbeats by what came of them.", ("outcome",))
RING_CHANGES = Counter("coterie_ring_changes_total", "How often this conductor saw its fleet change.")

_ALL: tuple[Meter, ...] = (CPI_SECONDS, CPI_ERRORS, STEPS, RETRIES, LOSSES, BEATS, RING_CHANGES)


def metrics_text(*more: Meter) -> str:
    """All of them, and those that only the caller has."""
    release = family("coterie_info", "The release.", "gauge", [("", {"version": __version__}, 1)])
    return release + text((*_ALL, *more))
