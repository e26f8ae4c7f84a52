"""Finds drivers by entry point `coterie.cpi` and loads them on first use; no code imports a driver by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from coterie.cpi.contract import Cpi, Forms, Runtime
from coterie.errors import UsageError


def driver_names() -> list[str]:
    return sorted(_installed())


def open_cloud(driver: str, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> Cpi:
    """The driver object of one configured cloud. Constructing it calls no cloud."""
    return driver_class(driver)(cloud, properties, runtime)


def forms_of(driver: str) -> Forms:
    """What users may write for a driver; nothing is known of one that is not installed here."""
    return driver_class(driver).forms if driver in driver_names() else {}


@cache
def driver_class(driver: str) -> type[Cpi]:
    if driver in _installed():
        loaded: type[Cpi] = _installed()[driver].load()
        return loaded
    raise UsageError(
        f"no cloud driver is named {driver!r}",
        remedy=f"use one of: {', '.join(driver_names())}, or install the package that brings it",
    )


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """Read once in a process: each reading opens a file of every installed package, and they stay as they are."""
    return {point.name: point for point in entry_points(group="coterie.cpi")}
