"""`coterie sandbox calls`: counts of the calls to the cloud."""

from __future__ import annotations

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json, table


@noun("calls")
@at_state
def calls(session: Session) -> None:
    """Calls by method since the log was switched on."""
    from coterie.sandbox.calls import counts

    found = counts(open_state(session, create=False).store)
    rows = [[method, count.calls, count.failed] for method, count in sorted(found.items())]
    if session.json:
        session.data(as_json({method: {"calls": number, "failed": failed} for method, number, failed in rows}))
        return
    session.data(table(("METHOD", "CALLS", "FAILED"), rows, session.paint))


@calls.verb("on")
@at_state
def switch_on(session: Session) -> None:
    """Log calls from now on."""
    _switch(session, True)


@calls.verb("off")
@at_state
def switch_off(session: Session) -> None:
    """Log no more calls; what was logged stays."""
    _switch(session, False)


@calls.verb("forget")
@at_state
def forget(session: Session) -> None:
    """Empty the log."""
    from coterie.sandbox.calls import forget as empty

    empty(open_state(session).store)
    session.say("the log is empty")


def _switch(session: Session, on: bool) -> None:
    from coterie.sandbox.calls import switch_log

    switch_log(open_state(session).store, on)
    session.say(f"calls are {'' if on else 'not '}logged")


sandbox.add_command(calls)
