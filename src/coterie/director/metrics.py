"""The metrics page: counts by state as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie import __version__
from coterie.ledger.store import Tx
from coterie.ledger.views import cleanups, counts


class _Gauge(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Tx], counts.Counts]
    type: str = "gauge"


_GAUGES = (
    _Gauge("coterie_tasks", "Tasks by state.", ("state",), counts.tasks_by_state),
    _Gauge("coterie_steps", "Steps by state.", ("state",), counts.steps_by_state),
    _Gauge("coterie_objects", "Cloud objects by kind and state.", ("kind", "state"), counts.objects_by_kind_and_state),
    _Gauge("coterie_nodes", "Nodes by state.", ("state",), counts.nodes_by_state),
    _Gauge(
        "coterie_cleanup_found",
        "What the newest survey of each kind found, by verdict.",
        ("cloud", "kind", "verdict"),
        cleanups.found_by_kind,
    ),
    _Gauge("coterie_cleanup_kept", "Found, and not to be deleted.", ("cloud", "kind"), cleanups.kept_by_kind),
    _Gauge("coterie_cleanup_cleaned_total", "Deleted.", ("cloud", "kind"), cleanups.cleaned_by_kind, "counter"),
)


def text(tx: Tx) -> str:
    lines = [
        "# HELP coterie_info The release.",
        "# TYPE coterie_info gauge",
        f'coterie_info{{version="{__version__}"}} 1',
    ]
    for gauge in _GAUGES:
        lines += [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} {gauge.type}"]
        lines += [_line(gauge, values, count) for values, count in gauge.read(tx).items()]
    return "\n".join(lines) + "\n"


def _line(gauge: _Gauge, values: tuple[str, ...], count: int) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in zip(gauge.labels, values, strict=True))
    return f"{gauge.name}{{{labels}}} {count}"
