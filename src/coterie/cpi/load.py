"""Finds drivers by entry point `coterie.cpi` and loads them on first use; no code imports a driver by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.cpi.contract import Capabilities, Cpi, Forms, Json, Runtime
from coterie.errors import CoterieError, UsageError

_GROUP = "coterie.cpi"


def driver_names() -> list[str]:
    return sorted(_installed())


def open_cloud(driver: str, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> Cpi:
    """The driver object of one configured cloud. Constructing it calls no cloud."""
    return driver_class(driver)(cloud, properties, runtime)


def capabilities_without_cloud(driver: str, cloud: str, properties: Mapping[str, Any]) -> Capabilities | None:
    """What the driver can do in this cloud, for a program that may ask no cloud. None: its properties do not tell,
    since they are sealed or incomplete; or it may have to ask, as a driver without the kit's profile."""
    if not _place(driver):
        return None
    try:
        opened = open_cloud(driver, cloud, properties, Runtime("", _NoCoordinator(), Path()))
    except CoterieError:
        return None
    found: Capabilities | None = getattr(getattr(opened, "profile", None), "capabilities", None)
    return found


class _NoCoordinator:
    """For a driver that is asked about itself only."""

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        raise NotImplementedError("a driver that is asked about itself changes nothing")

    def hold(self, domain: str) -> None:
        raise NotImplementedError("a driver that is asked about itself changes nothing")


def forms_of(driver: str) -> Forms:
    """What users may write for a driver; nothing is known of one that is not installed here."""
    return driver_class(driver).forms if _place(driver) else {}


@cache
def driver_class(driver: str) -> type[Cpi]:
    if place := _place(driver):
        module, _, name = place.partition(":")
        loaded: type[Cpi] = getattr(import_module(module), name)
        return loaded
    raise UsageError(
        f"no cloud driver is named {driver!r}",
        remedy=f"use one of: {', '.join(driver_names())}, or install the package that brings it",
    )


def _place(driver: str) -> str | None:
    """Its module and class, as its entry point names them."""
    return _in_folders().get(driver) or _installed().get(driver)


@cache
def _in_folders() -> Mapping[str, str]:
    """Of packages that pip has installed into folders, the usual way. A call of `coterie-cpi` needs no more, and the
    standard library's reader, which also knows the unusual ways, would be a sixth of what such a call costs."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for folder in sys.path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):  # noqa: PTH208  # pathlib is slower than all of this
                package = name.partition("-")[0]
                if name.endswith(".dist-info") and package not in seen:
                    seen.add(package)
                    found.update(_read_entry_points(f"{folder or '.'}/{name}/entry_points.txt"))
    return found


def _read_entry_points(file: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123  # as above
            text = opened.read()
    except (OSError, UnicodeDecodeError):
        return
    _, _, section = f"\n{text}".partition(f"\n[{_GROUP}]")
    for line in section.partition("\n[")[0].splitlines():
        name, _, place = line.partition("=")
        if place and not line.startswith(("#", ";")):
            yield name.strip(), place.partition("[")[0].strip()


@cache
def _installed() -> Mapping[str, str]:
    """Read once in a process: each reading opens a file of every installed package, and they stay as they are."""
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point.value.partition("[")[0].strip() for point in entry_points(group=_GROUP)}
