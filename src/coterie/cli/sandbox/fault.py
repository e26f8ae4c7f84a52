"""`coterie sandbox fault`: set, list and clear faults of the simulated cloud."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json, table
from coterie.errors import NotFound

_FAULT = ("ID", "METHOD", "MODE", "TIMES", "MATCH", "MS", "CODE")


@noun("fault")
@at_state
def fault(session: Session) -> None:
    """Faults on demand; without a verb, lists those that are set."""
    _list(session)


@fault.verb("add")
@at_state
@click.argument("method")
@click.argument("mode")
@click.option("--times", type=click.IntRange(min=1), help="How many calls it bends; default: all, until it is cleared.")
@click.option("--match", metavar="TEXT", help="Only calls whose object has TEXT in its name, id or tags.")
@click.option("--ms", type=click.IntRange(min=0), help="Milliseconds, for modes that take time.")
@click.option("--code", help="With mode error: which error; default: failed.")
@click.option("--permanent", is_flag=True, help="With mode error: a repeat will not help.")
def add(
    session: Session,
    method: str,
    mode: str,
    times: int | None,
    match: str | None,
    ms: int | None,
    code: str | None,
    permanent: bool,
) -> None:
    """Bend calls of METHOD (a glob; `methods` lists them) in one MODE (`modes` lists them)."""
    from coterie.sandbox import faults
    from coterie.sandbox.methods import read_pattern

    retryable = False if permanent else None
    meant = read_pattern(method)
    store = open_state(session).store
    made = faults.add(store, meant, mode, times=times, match=match, ms=ms, code=code, retryable=retryable)
    if session.json:
        session.data(as_json(made.wire()))
    session.say(f"fault {made.id}: {meant} {mode}")


@fault.verb("list")
@at_state
def list_faults(session: Session) -> None:
    """Faults that are set."""
    _list(session)


@fault.verb("clear")
@at_state
@click.argument("fault_id", type=int, required=False)
def clear(session: Session, fault_id: int | None) -> None:
    """Remove one fault, or all of them; calls that hang go on."""
    from coterie.sandbox import faults

    removed = faults.clear(open_state(session).store, fault_id)
    if fault_id is not None and not removed:
        raise NotFound(f"no fault {fault_id}", remedy="list them with `coterie sandbox fault list`")
    session.say(f"{removed} removed")


@fault.verb("modes")
def modes(session: Session) -> None:
    """What a fault can do."""
    from coterie.sandbox.faults import MODES

    if session.json:
        session.data(as_json(MODES))
        return
    session.data(table(("MODE", "MEANING"), list(MODES.items()), session.paint))


@fault.verb("methods")
def methods(session: Session) -> None:
    """Calls that can be bent."""
    from coterie.sandbox.methods import names

    session.data(as_json(names()) if session.json else "\n".join(names()))


def _list(session: Session) -> None:
    from coterie.sandbox import faults

    found = [one.wire() for one in faults.list_faults(open_state(session, create=False).store)]
    if session.json:
        session.data(as_json(found))
        return
    keys = ("id", "method", "mode", "times", "match", "ms", "code")
    session.data(table(_FAULT, [[one[key] for key in keys] for one in found], session.paint))


sandbox.add_command(fault)
