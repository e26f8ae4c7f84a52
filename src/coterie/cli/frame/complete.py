"""Completion by shells: every parameter that takes text or a number completes what it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

C = TypeVar("C", bound=click.Command)


class Completed(click.ParamType[Any]):
    """Reads values as `inner` does; what a shell may offer for them is in values.py, loaded only for that."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner = inner
        self.name = inner.name

    def __repr__(self) -> str:
        return repr(self._inner)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from coterie.cli.frame.values import offer

        return offer(ctx, param, incomplete)


def complete_values(command: C) -> C:
    for parameter in command.params:
        if parameter.type in (click.STRING, click.INT):
            parameter.type = Completed(parameter.type)
    return command
