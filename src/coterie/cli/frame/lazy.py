"""A group whose verbs are imported when they are used: `coterie --help` costs none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from coterie.cli.frame.flags import Sections


class Verb(NamedTuple):
    where: str  # module:attribute
    help: str


class LazyGroup(Sections, click.Group):
    def __init__(self, *arguments: Any, verbs: Mapping[str, Verb], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in self._verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._verbs and not args[0].startswith("-"):
            import difflib  # imported only for a mistyped verb

            near = difflib.get_close_matches(args[0], self._verbs, 1)
            hint = f" Did you mean {near[0]!r}?" if near else " `coterie --help` lists the verbs."
            raise click.UsageError(f"no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)
