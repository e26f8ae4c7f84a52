"""The noun itself, and which datacenter its verbs mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun

if TYPE_CHECKING:
    from coterie.sandbox.datacenter import Datacenter

F = TypeVar("F", bound=Callable[..., Any])
_KEPT = "sandbox_state"
_VARIABLE = "COTERIE_SANDBOX_STATE"


def _keep(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        ctx.ensure_object(dict)[_KEPT] = value


def at_state(function: F) -> F:
    """The option that names the datacenter's file; it may stand before or after the verb."""
    return click.option(
        "--state",
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help=f"The datacenter's file; default: ${_VARIABLE}, or sandbox.db in the state folder.",
    )(function)


@noun("sandbox")
@at_state
def sandbox(session: Session) -> None:
    """The simulated datacenter: zones, racks, hosts, and what runs there."""
    from coterie.cli.sandbox.show import show_all

    show_all(session)


def open_state(session: Session, *, create: bool = True) -> Datacenter:
    """The datacenter named by flag, environment or state folder; commands that only read do not create one."""
    from coterie.sandbox.datacenter import open_datacenter

    # read here, not by the option: that stands on noun and verb, and the verb's variable would beat the noun's flag
    named = click.get_current_context().ensure_object(dict).get(_KEPT) or os.environ.get(_VARIABLE)
    return open_datacenter(Path(named) if named else session.settings.state / "sandbox.db", create=create)
