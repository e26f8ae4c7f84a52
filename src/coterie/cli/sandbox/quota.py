"""`coterie sandbox quota`: how much an account may have."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json, table
from coterie.errors import UsageError


@noun("quota")
@at_state
def quota(session: Session) -> None:
    """Quotas; without a verb, lists those of every account."""
    from coterie.sandbox.view import picture

    accounts = picture(open_state(session, create=False).store)["accounts"]
    found = {account["name"]: account["quotas"] for account in accounts}
    if session.json:
        session.data(as_json(found))
        return
    rows = [[name, kind, one["used"], one["limit"]] for name, quotas in found.items() for kind, one in quotas.items()]
    session.data(table(("ACCOUNT", "RESOURCE", "USED", "LIMIT"), rows, session.paint))


@quota.verb("set")
@at_state
@click.argument("account")
@click.argument("resource")
@click.argument("limit")
def set_limit(session: Session, account: str, resource: str, limit: str) -> None:
    """ACCOUNT may have LIMIT (a number, or `none`) of RESOURCE."""
    from coterie.sandbox.quotas import set_quota

    if limit != "none" and not limit.isdigit():
        raise UsageError(f"LIMIT is {limit!r}", remedy="give a number from 0, or none")
    set_quota(open_state(session), account, resource, None if limit == "none" else int(limit))
    session.say(f"{account} may have {'any number' if limit == 'none' else limit} of {resource}")


sandbox.add_command(quota)
