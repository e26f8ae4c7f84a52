"""Rules inside a health check."""

from __future__ import annotations

from coterie.manifest.rules.report import Report
from coterie.manifest.schema import Deployment, Health
from coterie.manifest.tree import Loc


def check_health(report: Report[Deployment], health: Health, loc: Loc) -> None:
    kind = (*loc, "kind")
    if health.kind != "none" and health.port is None:
        report.add(
            (*loc, "port"), f"a health check of kind {health.kind} has no port", "add port, as in port: 8080", kind
        )
    if health.kind == "none":
        _refuse(report, health, loc, ("port", "path", "expect"), "add kind: tcp or kind: http, or remove it")
    if health.kind == "tcp":
        _refuse(report, health, loc, ("path", "expect"), "use kind: http, or remove it")


def _refuse(report: Report[Deployment], health: Health, loc: Loc, names: tuple[str, ...], remedy: str) -> None:
    for name in names:
        if name in health.model_fields_set:
            what = f"'{name}' has no meaning for a health check of kind {health.kind}"
            report.add((*loc, name), what, remedy, (*loc, "kind"))
