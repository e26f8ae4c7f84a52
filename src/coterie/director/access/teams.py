"""Teams of deployments: what a caller that is limited to teams may change, and the team of a new deployment."""

from __future__ import annotations

from coterie.director.access.caller import Caller, current, require
from coterie.errors import Forbidden, UsageError
from coterie.ledger.rows import ownerships
from coterie.ledger.store import Ledger, Tx


def require_own(ledger: Ledger, deployment: str) -> None:
    """For changes of an existing deployment."""
    with ledger.read() as tx:
        require_own_in_tx(tx, deployment)


def require_own_in_tx(tx: Tx, deployment: str) -> None:
    """The same, inside the transaction that changes it."""
    caller = current()
    if caller.visibility is not None and ownerships.team_of(tx, deployment) not in caller.visibility.teams:
        raise _not_yours(caller, deployment)


def require_own_or_new(ledger: Ledger, deployment: str) -> None:
    """For a plan: every caller may use a name that was never used."""
    with ledger.read() as tx:
        _require_own_or_new(tx, deployment)


def require_assignable(ledger: Ledger, deployment: str, wanted: str | None) -> None:
    """For a deploy, before planning: refuse early what would be refused at the end."""
    with ledger.read() as tx:
        _team_for(tx, deployment, wanted)


def assign_team(tx: Tx, deployment: str, wanted: str | None) -> None:
    """Inside the transaction that accepts a deploy: another team may have taken the name meanwhile."""
    team = _team_for(tx, deployment, wanted)
    if team is not None:
        ownerships.assign(tx, deployment, team)


def _team_for(tx: Tx, deployment: str, wanted: str | None) -> str | None:
    """The team that a deploy assigns; None: the team stays as it is."""
    _require_own_or_new(tx, deployment)
    caller, team = current(), ownerships.team_of(tx, deployment)
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


def _require_own_or_new(tx: Tx, deployment: str) -> None:
    if current().visibility is not None and not ownerships.is_unused(tx, deployment):
        require_own_in_tx(tx, deployment)


def _not_yours(caller: Caller, deployment: str) -> Forbidden:
    return Forbidden(
        f"{caller.name} may not use the name {deployment!r}",
        why="it does not belong to a team of this token",
        remedy="choose another name, or ask an admin: coterie deployments set NAME --team TEAM",
    )
