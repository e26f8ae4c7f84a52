"""Whose a deployment is: what a caller who is limited to teams may change, and which team a new one belongs to."""

from __future__ import annotations

from coterie.director.access.caller import Caller, present, require
from coterie.errors import Forbidden, UsageError
from coterie.ledger.rows import ownerships
from coterie.ledger.store import Ledger, Tx


def require_own(ledger: Ledger, deployment: str) -> None:
    """For changes of what is there."""
    with ledger.read() as tx:
        still_own(tx, deployment)


def still_own(tx: Tx, deployment: str) -> None:
    """The same, inside the transaction that changes it."""
    caller = present()
    if caller.visibility is not None and ownerships.team_of(tx, deployment) not in caller.visibility.teams:
        raise _not_yours(caller, deployment)


def require_own_or_new(ledger: Ledger, deployment: str) -> None:
    """For a plan: a name that nothing ever had is free for everybody."""
    with ledger.read() as tx:
        _own_or_new(tx, deployment)


def require_takable(ledger: Ledger, deployment: str, wanted: str | None) -> None:
    """For a deploy, before its planning: what would be refused at its end need not be planned."""
    with ledger.read() as tx:
        _team_for(tx, deployment, wanted)


def take(tx: Tx, deployment: str, wanted: str | None) -> None:
    """Inside the transaction that accepts a deploy: meanwhile another team may have taken the name."""
    team = _team_for(tx, deployment, wanted)
    if team is not None:
        ownerships.assign(tx, deployment, team)


def _team_for(tx: Tx, deployment: str, wanted: str | None) -> str | None:
    """The team that a deploy gives the deployment to; None: it stays whose it is."""
    _own_or_new(tx, deployment)
    caller, team = present(), ownerships.team_of(tx, deployment)
    if team is not None and wanted not in (None, team):
        require("admin", f"move deployment {deployment} to another team")
    if caller.visibility is None or team is not None:
        return wanted
    if wanted is None and len(caller.visibility.teams) == 1:
        return next(iter(caller.visibility.teams))
    if wanted not in caller.visibility.teams:
        raise UsageError(
            f"which team shall deployment {deployment} belong to?",
            remedy=f"say --team, one of: {', '.join(sorted(caller.visibility.teams)) or 'none of yours'}",
        )
    return wanted


def _own_or_new(tx: Tx, deployment: str) -> None:
    if present().visibility is not None and not ownerships.is_unused(tx, deployment):
        still_own(tx, deployment)


def _not_yours(caller: Caller, deployment: str) -> Forbidden:
    return Forbidden(
        f"{caller.name} may not use the name {deployment!r}",
        why="it does not belong to a team of this token",
        remedy="choose another name, or ask an admin: coterie deployments set NAME --team TEAM",
    )
