"""Lets nothing but errors of the contract out of a driver's method."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from coterie.cpi.contract import CpiError
from coterie.cpi.openstack.refusals import Refusal, translate

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def cloud_call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    @wraps(method)
    def translated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Refusal as error:
            raise translate(error) from error
        except OSError as error:
            raise CpiError(
                f"{method.__name__} failed on this machine", why=str(error), remedy="check the file or disk it names"
            ) from error

    return translated
