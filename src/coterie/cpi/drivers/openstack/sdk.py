"""The door to keystoneauth1, opened on first use: `part("session")` is keystoneauth1.session.

Nothing else of this driver imports it, so that a program that only asks what the driver is does not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coterie.cpi.contract import CpiError


def part(name: str) -> Any:
    return _module(f"keystoneauth1.{name}")


def requests() -> Any:
    """What keystoneauth1 itself speaks HTTP with."""
    return _module("requests")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise CpiError(
            "keystoneauth1 is not installed",
            why=str(error),
            remedy="install coterie with its extra: coterie[openstack]",
        ) from error
