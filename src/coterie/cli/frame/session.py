"""One run of a command: its settings, its flags, where words and data go, and the link to the Director."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.show.paint import Paint
from coterie.cli.show.plain import clean
from coterie.errors import Refused
from coterie.settings import Settings, load

if TYPE_CHECKING:
    from coterie.client import Client


@dataclass
class Session:
    settings: Settings
    argv: Sequence[str] = ()
    quiet: bool = False
    verbose: bool = False
    yes: bool = False
    wait: bool = True
    timeout: float | None = None
    foreground: bool = False
    _closers: list[Any] = field(default_factory=list)

    @staticmethod
    def of(flags: Mapping[str, Any], argv: Sequence[str]) -> Session:
        settled = ("output", "color", "director", "ca")
        return Session(
            load({name: flags.get(name) for name in settled}),
            argv,
            **{name: value for name, value in flags.items() if name not in settled},
        )

    @cached_property
    def client(self) -> Client:
        """The client of the Director; a local one is started when it does not run."""
        from coterie.cli.link.route import route_to
        from coterie.client import Client
        from coterie.client.api import Api

        route = route_to(self.settings, foreground=self.foreground, say=self.say)
        self._closers.append(route.close)
        return Client(api=Api(route, self.note))

    @property
    def json(self) -> bool:
        return bool(self.settings["output"] == "json")

    @cached_property
    def paint(self) -> Paint:
        return Paint(self.settings["color"], sys.stdout)

    def say(self, words: str) -> None:
        """Words for a person: on stderr, and not with -q."""
        if not self.quiet:
            click.echo(clean(words), err=True)

    def note(self, words: str) -> None:
        if self.verbose:
            click.echo(clean(words), err=True)

    def data(self, text: str) -> None:
        try:
            click.echo(clean(text.rstrip("\n"), colours=self.paint.on), color=self.paint.on or None)
        except BrokenPipeError:
            # The reader closed the pipe (`| head`): that is no failure, and the flush at exit must not become one.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None

    def confirm(self, question: str) -> None:
        """Ask before something is destroyed; without a terminal only --yes will do."""
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise Refused(
                "this destroys something, and there is no terminal for a confirmation",
                why="there is no terminal, and --yes was not given",
                remedy=f"look at it, then repeat: {self.command('--yes')}",
            )
        if not click.confirm(question, err=True):
            raise Refused("not done", why="it was not confirmed", remedy="nothing was changed")

    def command(self, *more: str) -> str:
        """This very command, to be repeated."""
        return shlex.join(["coterie", *self.argv, *more])

    def close(self) -> None:
        for closer in self._closers:
            closer()
