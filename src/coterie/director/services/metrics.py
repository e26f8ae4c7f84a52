"""The metrics page of a Director: what the ledger counts, then what this process has counted itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.director.services.ring_moves import RingMoves
from coterie.ledger.store import Tx
from coterie.ledger.views import cleanups, counts, fleet_counts
from coterie.ledger.views.clouds import count_alarms
from coterie.telemetry import process
from coterie.telemetry.meters import Sample, family


class _Family(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Tx], counts.Counts]
    type: str = "gauge"

    def samples(self, tx: Tx, more: str = "") -> list[Sample]:
        return _samples(self.labels, self.read(tx), more)


_FAMILIES = (
    _Family("coterie_tasks", "Tasks by state.", ("state",), counts.tasks_by_state),
    _Family("coterie_steps", "Steps by state.", ("state",), counts.steps_by_state),
    _Family("coterie_objects", "Cloud objects by kind and state.", ("kind", "state"), counts.objects_by_kind_and_state),
    _Family("coterie_nodes", "Nodes by state.", ("state",), counts.nodes_by_state),
    _Family(
        "coterie_deployments_unfinished",
        "Deployments whose newest task failed or was cancelled, until a deploy completes them.",
        (),
        counts.unfinished_deployments,
    ),
    _Family(
        "coterie_cleanup_found",
        "What the newest survey of each kind found, by verdict.",
        ("cloud", "kind", "verdict"),
        cleanups.found_by_kind,
    ),
    _Family("coterie_cleanup_kept", "Found, and not to be deleted.", ("cloud", "kind"), cleanups.kept_by_kind),
    _Family("coterie_cleanup_cleaned_total", "Deleted.", ("cloud", "kind"), cleanups.cleaned_by_kind, "counter"),
    _Family("coterie_cloud_alarms", "Alarms that wait for an operator.", ("cloud", "kind"), count_alarms),
    _Family("coterie_task_age_seconds", "Age of the oldest unfinished task.", ("kind",), counts.task_ages),
    _Family(
        "coterie_steps_unserved",
        "Ready steps that no live conductor can run, and why.",
        ("conductor_group", "driver", "why"),
        fleet_counts.unserved_steps,
    ),
    _Family(
        "coterie_conductor_heartbeat_age_seconds",
        "Seconds since the last heartbeat of a conductor.",
        ("conductor", "conductor_group"),
        fleet_counts.heartbeat_ages,
    ),
)


def text(tx: Tx, ring_moves: RingMoves) -> str:
    families = [family(one.name, one.help, one.type, one.samples(tx)) for one in _FAMILIES]
    return process.metrics_text() + "".join(families) + _durations(tx) + _groups(tx) + _moves(tx, ring_moves)


def _durations(tx: Tx) -> str:
    labels = ("kind", "state")
    parts = [*_samples(labels, counts.task_seconds(tx), "_sum"), *_samples(labels, counts.tasks_ended(tx), "_count")]
    return family("coterie_task_duration_seconds", "Duration of ended tasks, from request to end.", "summary", parts)


def _groups(tx: Tx) -> str:
    alive, lost = (_samples(("conductor_group",), found) for found in fleet_counts.groups(tx))
    return family("coterie_conductors", "Live conductors of a group.", "gauge", alive) + family(
        "coterie_nodes_unserved", "Nodes that no conductor serves.", "gauge", lost
    )


def _moves(tx: Tx, ring_moves: RingMoves) -> str:
    what = "Nodes that changed their conductor, as seen from scrape to scrape."
    return family("coterie_ring_moves_total", what, "counter", _samples(("what",), ring_moves.read(tx)))


def _samples(labels: tuple[str, ...], found: counts.Counts, more: str = "") -> list[Sample]:
    return [(more, dict(zip(labels, values, strict=True)), count) for values, count in found.items()]
