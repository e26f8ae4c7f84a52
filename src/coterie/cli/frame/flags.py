"""Flags that every verb takes, before or after its name; in its help they stand in a section of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        ctx.ensure_object(dict).setdefault("flags", {})[parameter.name] = value


class _Shared(click.Option):
    pass


def _option(*names: str, **keywords: Any) -> Callable[[F], F]:
    return click.option(*names, cls=_Shared, expose_value=False, callback=_keep, default=None, **keywords)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option("-o", "--output", type=click.Choice(["table", "json"]), help="Form of the data on stdout."),
    _option("-q", "--quiet", flag_value=True, is_flag=True, help="Print data and errors only."),
    _option("-v", "--verbose", flag_value=True, is_flag=True, help="Print the requests to the Director."),
    _option("-y", "--yes", flag_value=True, is_flag=True, help="Do not ask."),
    _option("--director", metavar="URL", help="Director to talk to; default: the local one, started on demand."),
    _option("--ca", metavar="FILE", help="Certificates that the Director's is checked against."),
    _option("--wait/--no-wait", help="Follow the task to its end, or only start it."),
    _option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Wait no longer; the task goes on."),
    _option("--color", type=click.Choice(["auto", "always", "never"]), help="Colours; NO_COLOR works too."),
    _option("--foreground", flag_value=True, is_flag=True, help="End the local Director with this command."),
)


def add_shared_flags(function: F, *, own_output: bool = False) -> F:
    """`own_output`: the verb has a form of output that no other has, and an option -o of its own."""
    for option in reversed(_OPTIONS[1:] if own_output else _OPTIONS):
        function = option(function)
    return function


class Sections(click.Command):
    """Help with the verb's own options first, the shared ones below."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        everywhere: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                (everywhere if isinstance(parameter, _Shared) else own).append(record)
        for title, records in (("Options", own), ("Global options", everywhere)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
