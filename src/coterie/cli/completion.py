"""`coterie completion`: scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from coterie.cli.frame.session import Session
from coterie.cli.frame.shells import register
from coterie.cli.frame.verb import verb


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> None:
    """Print the completion script for SHELL: verbs, options, files, and names of what the Director knows, if it runs.

    \b
    bash  source <(coterie completion bash)        in ~/.bashrc
    zsh   source <(coterie completion zsh)         in ~/.zshrc, below compinit
    fish  coterie completion fish | source         in ~/.config/fish/config.fish
    """
    from coterie.cli.main import COMPLETE, coterie

    register()
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    session.data(made(coterie, {}, "coterie", COMPLETE).source())
