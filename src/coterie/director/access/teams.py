"""Whose a deployment is: what a caller who is limited to teams may change, and which team a new one belongs to."""

from __future__ import annotations

from coterie.director.access.caller import Caller, present, require
from coterie.errors import Forbidden, UsageError
from coterie.ledger import ownerships
from coterie.ledger.store import Ledger


def require_own(ledger: Ledger, deployment: str) -> None:
    """For changes of what is there."""
    caller = present()
    if caller.sight is None:
        return
    with ledger.read() as tx:
        team = ownerships.team_of(tx, deployment)
    if team not in caller.sight.teams:
        raise _not_yours(caller, deployment)


def require_own_or_new(ledger: Ledger, deployment: str) -> None:
    """For a deploy: a name that nothing ever had is free for everybody."""
    if present().sight is None:
        return
    with ledger.read() as tx:
        free = ownerships.unused(tx, deployment)
    if not free:
        require_own(ledger, deployment)


def team_for(ledger: Ledger, deployment: str, wanted: str | None) -> str | None:
    """The team that a deploy gives the deployment to; None: it stays whose it is."""
    caller = present()
    with ledger.read() as tx:
        team = ownerships.team_of(tx, deployment)
    if team is not None and wanted not in (None, team):
        require("admin", f"move deployment {deployment} to another team")
    if caller.sight is None or team is not None:
        return wanted
    if wanted is None and len(caller.sight.teams) == 1:
        return next(iter(caller.sight.teams))
    if wanted not in caller.sight.teams:
        raise UsageError(
            f"which team shall deployment {deployment} belong to?",
            remedy=f"say --team, one of: {', '.join(sorted(caller.sight.teams)) or 'none of yours'}",
        )
    return wanted


def assign(ledger: Ledger, deployment: str, team: str | None) -> None:
    with ledger.write() as tx:
        ownerships.assign(tx, deployment, team)


def _not_yours(caller: Caller, deployment: str) -> Forbidden:
    return Forbidden(
        f"{caller.name} may not use the name {deployment!r}",
        why="it does not belong to a team of this token",
        remedy="choose another name, or ask an admin: coterie deployments set NAME --team TEAM",
    )
