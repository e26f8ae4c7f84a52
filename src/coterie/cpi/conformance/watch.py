"""A watched driver: no error but the contract's leaves it, and a call that fails leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.contract import Cpi, CpiError, OutcomeUnknown
from coterie.cpi.wire import METHODS


def watch_driver(cpi: Cpi, inventory: Callable[[], Inventory] | None) -> Cpi:
    """`inventory` None: others work at the same time, so only the classes of errors are watched."""
    return cast(Cpi, _Watched(cpi, inventory))


class _Watched:
    def __init__(self, cpi: Cpi, inventory: Callable[[], Inventory] | None) -> None:
        self._cpi = cpi
        self._inventory = inventory

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._cpi, name)
        return self._check(name, value) if name in METHODS else value

    def _check(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_check(*args: Any, **kwargs: Any) -> Any:
            before = self._inventory() if self._inventory and METHODS[name].changes else None
            try:
                return call(*args, **kwargs)
            except CpiError as error:
                check_error(name, error)
                if before is not None and not isinstance(error, OutcomeUnknown):
                    self._check_nothing_left(name, error, before)
                raise
            except Exception as error:
                raise AssertionError(f"{name} let {type(error).__name__} out, not a contract error: {error}") from error

        return call_and_check

    def _check_nothing_left(self, name: str, error: CpiError, before: Inventory) -> None:
        assert self._inventory
        left = sorted(self._inventory() - before)
        assert not left, f"{name} failed ({error}) and left behind {left}"


def check_error(name: str, error: CpiError) -> None:
    assert error.what.strip(), f"{name}: an error that says nothing"
    assert error.remedy.strip(), f"{name}: {error} has no remedy"
    assert error.what.strip() != type(error).__name__, f"{name}: only the name of an exception: {error}"
