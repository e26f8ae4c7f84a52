"""Lets nothing but errors of the contract out of a driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from coterie.cpi.contract import Cpi
from coterie.cpi.contract.errors import Changed, CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.errors import CoterieError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
E = TypeVar("E", bound=Exception)
C = TypeVar("C", bound=Cpi)

_REMEDY = "check the file or disk it names, then repeat"


class ClassifiedRefusal(CpiError):
    """What a cloud answered, inside its driver only. `kind`: the class of the contract that it is for callers."""

    kind: type[CpiError]


def translate(error: ClassifiedRefusal) -> CpiError:
    return error.kind(error.what, why=error.why, remedy=error.remedy, retryable=error.retryable, details=error.details)


def is_passing(error: Exception) -> bool:
    """Whether it is trouble of the moment, and says nothing of what was asked for."""
    return (error.kind if isinstance(error, ClassifiedRefusal) else type(error)) in (Throttled, Unavailable)


def rest_after(error: Exception, usual: float) -> float | None:
    """For `ask_patiently`: trouble of the moment is waited out, for as long as the cloud says."""
    if not isinstance(error, CpiError) or not is_passing(error):
        return None
    return max(usual, float(error.details.get("retry_after") or 0.0))


def rewrite(read: Callable[[], R], write: Callable[[R], object], tries: int = 5) -> None:
    """Read and write until no other writer was between the two: the cloud refuses what was written too late."""
    for attempt in range(tries):
        try:
            write(read())
            return
        except ClassifiedRefusal as error:
            if error.kind is not Changed or attempt == tries - 1:
                raise


def translate_errors(refusal: type[E], translate: Callable[[E], CpiError]) -> Callable[[type[C]], type[C]]:
    """A decorator for the class of a driver: what its contract methods raise, inherited ones included, leaves in the
    contract's words.

    `refusal` is what the cloud answers; the driver's parts raise and catch it freely.
    """
    wrap = contract_errors(refusal, translate)

    def decorate(driver: type[C]) -> type[C]:
        for name, promised in vars(Cpi).items():
            method = None if name.startswith("_") else getattr(driver, name)
            if callable(method) and method is not promised:
                setattr(driver, name, wrap(method))
        return driver

    return decorate


def contract_errors(
    refusal: type[E], translate: Callable[[E], CpiError]
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """The same for a single method."""

    def cloud_call(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def translated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(self, *args, **kwargs)
            except refusal as error:
                raise translate(error) from error
            except CoterieError:
                raise
            except OSError as error:
                if method.__name__ == "apply":
                    raise  # its changes may be creations under marks: the coordinator says what became of them
                if "mark" in kwargs:
                    raise _unknown_outcome(method.__name__, error) from error
                raise CpiError(f"{method.__name__} failed on this machine", why=str(error), remedy=_REMEDY) from error
            except Exception as error:
                if "mark" in kwargs:
                    raise _unknown_outcome(method.__name__, error) from error
                raise

        return translated

    return cloud_call


def _unknown_outcome(method: str, error: Exception) -> OutcomeUnknown:
    """For a creation: the cloud may have begun it before this machine failed."""
    return OutcomeUnknown(
        f"{method} failed on this machine, perhaps after the cloud had begun it",
        why=f"{type(error).__name__}: {error}",
        remedy=_REMEDY,
    )
