"""Whether the real command line takes these words, without running them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from coterie.cli.main import coterie


def accept(words: Sequence[str]) -> None:
    """Raises click's UsageError for a verb or flag that does not exist, or a value that does not fit."""
    command: click.Command = coterie
    rest = list(words)
    context = click.Context(coterie, info_name="coterie", **coterie.context_settings)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None and command is not coterie:
            break
        if found is None:
            raise click.UsageError(f"no verb {rest[0]!r}")
        command = found
        rest = rest[1:]
    if rest == ["--help"]:
        return
    command.make_context(" ".join(words), rest, parent=context)
