"""Lets nothing but errors of the contract out of a driver's method."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from coterie.cpi.contract.errors import CpiError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
E = TypeVar("E", bound=Exception)

_REMEDY = "check the file or disk it names, then repeat"


def contract_errors(
    refusal: type[E], translate: Callable[[E], CpiError]
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """A decorator for the methods of one driver: `refusal` is what its cloud answers, `translate` says the same in the
    contract's words."""

    def cloud_call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def translated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(self, *args, **kwargs)
            except refusal as error:
                raise translate(error) from error
            except OSError as error:
                raise CpiError(f"{method.__name__} failed on this machine", why=str(error), remedy=_REMEDY) from error

        return translated

    return cloud_call
