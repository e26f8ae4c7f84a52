"""Turns a function into a verb or a noun: shared flags, and the session as its first argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from coterie.cli.frame.complete import complete_values
from coterie.cli.frame.flags import Sections, add_shared_flags
from coterie.cli.frame.lazy import require_verb
from coterie.cli.frame.session import Session

Body = Callable[..., Any]


class _Verb(Sections):
    pass


class Noun(Sections, click.Group):
    def verb(self, name: str, *, own_output: bool = False) -> Callable[[Body], click.Command]:
        def decorate(body: Body) -> click.Command:
            command = verb(name, own_output=own_output)(body)
            self.add_command(command)
            return command

        return decorate

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        require_verb(ctx, args, self.commands)
        return super().resolve_command(ctx, args)


def verb(name: str, *, own_output: bool = False) -> Callable[[Body], click.Command]:
    """A command of its own, or (through Noun.verb) one of a noun. `own_output`: it has an option -o of its own."""

    def decorate(body: Body) -> click.Command:
        @functools.wraps(body)
        def call(*arguments: Any, **keywords: Any) -> Any:
            return body(_session(), *arguments, **keywords)

        return complete_values(click.command(name, cls=_Verb)(add_shared_flags(call, own_output=own_output)))

    return decorate


def noun(name: str) -> Callable[[Body], Noun]:
    """A group of commands whose body runs (and usually lists) when no subcommand is named."""

    def decorate(body: Body) -> Noun:
        @functools.wraps(body)
        def call(*arguments: Any, **keywords: Any) -> Any:
            # Flags after the subcommand are not read yet: the session must not be made before they are.
            if click.get_current_context().invoked_subcommand is None:
                return body(_session(), *arguments, **keywords)
            return None

        return complete_values(click.group(name, cls=Noun, invoke_without_command=True)(add_shared_flags(call)))

    return decorate


def _session() -> Session:
    ctx = click.get_current_context()
    kept = ctx.ensure_object(dict)
    if "session" not in kept:
        kept["session"] = Session.of(kept.get("flags", {}), kept.get("argv", []))
        ctx.find_root().call_on_close(kept["session"].close)
    session: Session = kept["session"]
    return session
