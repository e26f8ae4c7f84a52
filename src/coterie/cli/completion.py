"""`coterie completion`: scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> None:
    """Print the completion script for SHELL; put `source <(coterie completion bash)` into your ~/.bashrc."""
    from coterie.cli.main import coterie

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    session.data(made(coterie, {}, "coterie", "_COTERIE_COMPLETE").source())
