"""Credentials that the machine of a conductor has by itself: its role, its environment, files on it. A cloud config may
use only those that the machine's own settings name, and cannot say where they are sent: its author would otherwise work
with them, or have them sent to an address of his own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from coterie.cpi.contract import EVERY_SOURCE, NotSupported

ENVIRONMENT, INSTANCE = "environment", "instance"


def require_source(allowed: Sequence[str], name: str, wanted: str, leading: Mapping[str, object]) -> None:
    """`wanted`: what the property `name` comes to, a word or the path of a file. `leading`: the properties that decide
    where credentials are sent and who may read them on the way, with their values."""
    if EVERY_SOURCE in allowed:
        return
    if not any(_is_same(one, wanted) for one in allowed):
        raise NotSupported(
            f"the property {name} may not use credentials of this machine",
            why="what it names is not in `credential_sources`, a setting of this machine that no cloud config changes",
            remedy="write the credentials into the properties, or add what it names to credential_sources of the "
            "conductor (COTERIE_CREDENTIAL_SOURCES), and start it again",
        )
    given = next((name for name, value in leading.items() if value), None)
    if given:
        raise NotSupported(
            f"the property {given} cannot stand beside credentials of this machine",
            why="it decides where they are sent",
            remedy=f"leave {given} out, or write the credentials into the properties",
        )


def _is_same(one: str, wanted: str) -> bool:
    """Links on the way may have changed."""
    return one == wanted or (one.startswith("/") and os.path.realpath(one) == os.path.realpath(wanted))
