"""A group whose verbs are imported when they are used: `coterie --help` costs none of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.frame.flags import Sections

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
        require_verb(ctx, args, self._verbs)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and help from the table: no verb is imported for it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=verb.help) for name, verb in self._verbs.items() if name.startswith(incomplete)
        ]


def require_verb(ctx: click.Context, args: list[str], verbs: Collection[str]) -> None:
    """Refuse a word that is no verb, with a verb that it may be meant for."""
    if not args or args[0] in verbs or args[0].startswith("-") or ctx.resilient_parsing:
        return
    from coterie.cli.frame.suggest import suggest  # imported only for a mistyped verb

    near = suggest(args[0], verbs)
    hint = f"Did you mean {near!r}?" if near else f"`{ctx.command_path} --help` lists the verbs."
    raise click.UsageError(f"no verb {args[0]!r}. {hint}", ctx)
