"""Writes board.json, a board for Grafana, beside this file. It is imported there with the Prometheus to read from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
# Title, kind of panel, unit, and the queries with the words of their legends.
PANELS: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    ("Nodes by state", "timeseries", "short", [("max by (state) (coterie_nodes)", "{{state}}")]),
    ("Unfinished deployments", "stat", "short", [("max(coterie_deployments_unfinished)", "unfinished")]),
    ("Alarms of clouds", "stat", "short", [("sum by (cloud, kind) (coterie_cloud_alarms)", "{{cloud}} {{kind}}")]),
    ("Tasks by state", "timeseries", "short", [("max by (state) (coterie_tasks)", "{{state}}")]),
    ("Oldest unfinished task", "timeseries", "s", [("max by (kind) (coterie_task_age_seconds)", "{{kind}}")]),
    ("Steps by state", "timeseries", "short", [("max by (state) (coterie_steps)", "{{state}}")]),
    (
        "Live conductors",
        "timeseries",
        "short",
        [("max by (conductor_group) (coterie_conductors)", "{{conductor_group}}")],
    ),
    (
        "Work that no conductor serves",
        "timeseries",
        "short",
        [
            ("sum by (conductor_group) (coterie_steps_unserved)", "steps {{conductor_group}}"),
            ("sum by (conductor_group) (coterie_nodes_unserved)", "nodes {{conductor_group}}"),
        ],
    ),
    (
        "Silence of conductors",
        "timeseries",
        "s",
        [("max by (conductor) (coterie_conductor_heartbeat_age_seconds)", "{{conductor}}")],
    ),
    ("Steps in hand", "timeseries", "short", [("sum by (instance) (coterie_conductor_steps)", "{{instance}}")]),
    (
        "Cloud calls, 95th percentile",
        "timeseries",
        "s",
        [
            (
                "histogram_quantile(0.95, sum by (le, driver, method) (rate(coterie_cpi_call_seconds_bucket[5m])))",
                "{{driver}} {{method}}",
            )
        ],
    ),
    (
        "Failed cloud calls",
        "timeseries",
        "cps",
        [("sum by (driver, code) (rate(coterie_cpi_errors_total[5m]))", "{{driver}} {{code}}")],
    ),
    (
        "Retried steps",
        "timeseries",
        "cps",
        [("sum by (flow, code) (rate(coterie_step_retries_total[5m]))", "{{flow}} {{code}}")],
    ),
    ("Lost leases", "timeseries", "cps", [("sum by (what) (rate(coterie_lease_losses_total[5m]))", "{{what}}")]),
]


def board() -> dict[str, Any]:
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "title": "Coterie",
        "uid": "coterie",
        "tags": ["coterie"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "panels": [_panel(n, *one) for n, one in enumerate(PANELS)],
    }


def _panel(n: int, title: str, kind: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "id": n + 1,
        "title": title,
        "type": kind,
        "datasource": _SOURCE,
        "gridPos": {"h": 8, "w": 8, "x": n % 3 * 8, "y": n // 3 * 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + m), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for m, (query, legend) in enumerate(queries)
        ],
    }


if __name__ == "__main__":
    Path(__file__).with_name("board.json").write_text(json.dumps(board(), indent=2) + "\n")
